"""Fires schedules that are due: locks them, writes the plan of the model, and moves them on, in one transaction.

The lock on a trigger's row keeps other schedulers from planning it at the same time, and the unique key of its
decisions keeps a fire time from being made twice. Locks end with the transaction, so it works behind a pooler, too.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from asyncpg import Record
from uuid_utils import uuid7

from leasehold.config import process_redactor
from leasehold.engines.postgres import listen, trigger_rows
from leasehold.engines.postgres.database import Database, IdleLink
from leasehold.engines.postgres.enqueue_call import enqueue_call
from leasehold.engines.postgres.event_triggers import EventTriggers
from leasehold.engines.postgres.expansion import Expansion
from leasehold.engines.postgres.new_tzdata import renew_fire_times
from leasehold.errors import LeaseholdError, TransactionConflict, Unreachable
from leasehold.model.decision import DecisionKind
from leasehold.model.definition import Registered
from leasehold.model.fire_plan import (
    NO_TENANT,
    TRY_AGAIN,
    FirePlan,
    plan_fan_out,
    plan_fires,
    plan_tenants,
)
from leasehold.model.job import JobId, TenantId
from leasehold.model.trigger import ALL, TriggerId
from leasehold.model.zone import tzdata_version
from leasehold.store import Decided, FireRound, NextFire

if TYPE_CHECKING:
    from leasehold.engines.postgres.database import Connection

log = logging.getLogger("leasehold.scheduler")

# The fires of one transaction: its triggers are locked meanwhile, for some 20 ms.
FIRES_AT_ONCE = 200
# One of several due triggers takes at most so many places of a round: a fan-out leaves room for others.
LARGEST_SHARE = 100
# So many seconds are spent on the plans of a round, whose rows are locked meanwhile; the rest is for the next round.
PLANNING = 0.2
# A trigger that this process can't read is left to others for so long: a newer release may have written it.
LEFT_FOR = 300.0
# A connection for fires is kept as long as a schedule of every minute needs it.
IDLE = 70.0


@dataclass(slots=True)
class _Round:
    """The plans of one transaction, and how many more fires it may hold."""

    room: int
    plans: list[tuple[Record, FirePlan]] = field(default_factory=list)

    def add(self, row: Record, plan: FirePlan) -> None:
        self.plans.append((row, plan))
        self.room -= len(plan.fires)

    def decisions(self, database: Database) -> dict[str, list[Any]]:
        """Returns the parameters of fire.sql."""
        fires = [fire for _, plan in self.plans for fire in plan.fires]
        decided = [fire.decision.as_row() for fire in fires]
        statement = database.statement("tenant/enqueue_jobs")
        return {
            "triggers": [each["trigger"] for each in decided],
            "tenants": [each["tenant"] for each in decided],
            "fire_ats": [each["fire_at"] for each in decided],
            "kinds": [each["kind"] for each in decided],
            "fires": [each["count"] for each in decided],
            "reasons": [each["reason"] for each in decided],
            "whys": [fire.decision.recorded_why(process_redactor().text) or None for fire in fires],
            "jobs": [
                fire.job and enqueue_call(statement, database.schema, fire.decision.tenant, [fire.job]).jobs
                for fire in fires
            ],
            "ids": [fire.job and str(uuid7()) for fire in fires],
        }

    def places(self) -> dict[str, Any]:
        """Returns the parameters of advance.sql."""
        plans = [plan for _, plan in self.plans]
        return {
            "triggers": [row["id"] for row, _ in self.plans],
            "cursor_ats": [plan.cursor.at for plan in plans],
            "cursor_locals": [plan.cursor.local for plan in plans],
            "last_fire_ats": [plan.last_at for plan in plans],
            "next_fire_ats": [plan.next_at for plan in plans],
            "tzdata": tzdata_version(),
            "fan_out_ats": [plan.fan_out and plan.fan_out.fire_at for plan in plans],
            "fan_out_afters": [plan.fan_out and plan.fan_out.after for plan in plans],
        }

    def lanes(self, made: Sequence[Record]) -> dict[str, list[Any]]:
        """Returns the parameters of wake.sql: the lanes that got jobs, each with its first due time."""
        created = {(str(row["trigger_id"]), row["tenant_id"], row["fire_at"]) for row in made}
        dues: dict[tuple[str, str], datetime] = {}
        for _, plan in self.plans:
            for fire in plan.fires:
                decision, job = fire.decision, fire.job
                if job is None or job.at is None:
                    continue
                if (decision.trigger, decision.tenant, decision.fire_at) in created:
                    lane = job.definition, decision.tenant
                    dues[lane] = min(job.at, dues.get(lane, job.at))
        return {
            "definitions": [definition for definition, _ in dues],
            "tenants": [tenant for _, tenant in dues],
            "dues": list(dues.values()),
        }


class PostgresSchedules:
    def __init__(self, database: Database, triggers: EventTriggers) -> None:
        self._database = database
        self._link = IdleLink(database, IDLE)
        self._expansion = Expansion(self._link, triggers)
        self._versions = triggers.definitions
        self._unreadable: dict[str, float] = {}

    async def close(self) -> None:
        await self._link.close()

    def fire_times(self) -> AsyncGenerator[NextFire, None]:
        return listen.fire_times(self._database)

    async def renew_fire_times(self) -> int:
        return await renew_fire_times(self._database, self._link)

    async def fire_due(self) -> FireRound:
        done = await self._fire_schedules()
        return await self._expand_events(done) if done.events_wait else done

    async def _expand_events(self, before: FireRound) -> FireRound:
        expanded, decided = await self._expansion.expand()
        if not expanded:
            return before
        jobs = sum(each.kind is DecisionKind.FIRED for each in decided)
        left = self._left_to_others()
        ((wait, events_wait, _),) = await self._link.fetch("scheduler/next", announce=not left, left=left)
        return FireRound(before.fired + jobs, is_due(wait), wait, events_wait, expanded, (*before.decided, *decided))

    async def _fire_schedules(self) -> FireRound:
        try:
            return await self._fire(FIRES_AT_ONCE)
        except (Unreachable, TransactionConflict):
            raise
        except Exception as error:
            log.warning("schedules are fired one by one, since together they failed: %s", error)
            return await self._fire_one_by_one()

    async def _fire_one_by_one(self) -> FireRound:
        """Fires each due schedule in a transaction of its own. One that fails is put off, and the others go on."""
        fired, due, decided = 0, await self._due_now(), list[Decided]()
        for trigger in due:
            try:
                done = await self._fire(FIRES_AT_ONCE, only=trigger)
                fired += done.fired
                decided += done.decided
            except (Unreachable, TransactionConflict):
                raise
            except Exception as error:
                why = _why(error)
                log.error("trigger %s can't be fired, and is tried again in %s: %s", trigger, TRY_AGAIN, why)
                await self._link.fetch("scheduler/postpone", trigger=trigger, by=TRY_AGAIN, why=why[:1000])
                decided.append(Decided(trigger, NO_TENANT, DecisionKind.ERROR, lag=0.0))
        left = self._left_to_others()
        ((wait, events_wait, _),) = await self._link.fetch(
            "scheduler/next", announce=bool(due) and not left, left=left
        )
        return FireRound(fired, bool(due) and is_due(wait), wait, events_wait, decided=decided)

    async def _due_now(self) -> list[TriggerId]:
        async with self._link.transaction() as connection:
            return [TriggerId(str(row["id"])) for row in await self._lock(connection, None)]

    async def _fire(self, most: int, only: TriggerId | None = None) -> FireRound:
        """Fires due schedules in one transaction: all that is written about them, or nothing."""
        async with self._link.transaction() as connection:
            found = await self._lock(connection, only)
            made: list[Record] = []
            decided: list[Record] = []
            is_moved = False
            if found:
                round_ = await self._plan(connection, found, _Round(most))
                decided = await self._send(connection, "fire", **round_.decisions(self._database))
                made = [row for row in decided if row["kind"] == "fired"]
                await self._send(connection, "advance", **round_.places())
                if made:
                    await self._send(connection, "wake", **round_.lanes(made))
                is_moved = bool(round_.plans)
            left = self._left_to_others()
            ((wait, events_wait, _),) = await self._send(
                connection, "next", announce=is_moved and not left, left=left
            )
        definitions = {row["id"]: row["definition"] for row in found}
        told = [_decided(row, definitions[row["trigger_id"]]) for row in decided]
        return FireRound(len(made), bool(found) and is_due(wait), wait, events_wait, decided=told)

    async def _lock(self, connection: "Connection", only: TriggerId | None) -> list[Record]:
        return await self._send(connection, "due", only=only, limit=FIRES_AT_ONCE, left=self._left_to_others())

    def _left_to_others(self) -> list[str]:
        """Returns the triggers that this process could not read a while ago, each with that version."""
        now = asyncio.get_running_loop().time()
        self._unreadable = {key: until for key, until in self._unreadable.items() if until > now}
        return list(self._unreadable)

    async def _send(self, connection: "Connection", name: str, /, **values: Any) -> list[Record]:
        return await self._database.fetch_on(connection, f"scheduler/{name}", **values)

    # ------------------------------------------------------------------------------------------------------- plans

    async def _plan(self, connection: "Connection", found: Sequence[Record], round_: _Round) -> _Round:
        await self._read_definitions(connection, found)
        share = round_.room if len(found) == 1 else LARGEST_SHARE
        loop = asyncio.get_running_loop()
        enough = loop.time() + PLANNING
        for row in found:
            if round_.room <= 0 or (round_.plans and loop.time() >= enough):
                break
            await asyncio.sleep(0)  # a thousand due fires take 20 ms, in which nothing else runs
            try:
                plans = [plan async for plan in self._plans_of(connection, row, min(share, round_.room))]
            except (Unreachable, TransactionConflict):
                raise
            except Exception as error:
                self._leave(row, error)
            else:
                round_.add(row, _joined(plans, row["now"]))
        return round_

    def _leave(self, row: Record, error: Exception) -> None:
        """Leaves a trigger that can't be planned here to other processes. It stays due for them."""
        log.error("trigger %s can't be fired by this process, and is left to others: %s", row["id"], _why(error))
        self._unreadable[f"{row['id']}:{row['version']}"] = asyncio.get_running_loop().time() + LEFT_FOR

    async def _plans_of(self, connection: "Connection", row: Record, room: int) -> AsyncIterator[FirePlan]:
        trigger, now, definition = trigger_rows.trigger(row), row["now"], self._definition(row)
        if trigger.tenant is not ALL:
            yield plan_fires(trigger, now, definition, room)
            return
        fan_out = trigger_rows.fan_out(row)
        if fan_out is None:
            begun = plan_fan_out(trigger, now)
            yield begun
            fan_out = begun.fan_out
        if fan_out is not None:
            tenants = await self._send(connection, "tenants", after=fan_out.after, limit=room)
            names = [TenantId(each["id"]) for each in tenants]
            yield plan_tenants(trigger, fan_out, names, definition, complete=len(names) < room)

    async def _read_definitions(self, connection: "Connection", found: Sequence[Record]) -> None:
        if unknown := self._versions.unknown((row["definition"], row["definition_version"]) for row in found):
            rows = await self._database.fetch_on(connection, "fleet/definition_versions", **unknown)
            self._versions.add(rows)

    def _definition(self, row: Record) -> Registered | None:
        return self._versions.get(row["definition"], row["definition_version"], active=row["definition_active"])


def _decided(row: Record, definition: str) -> Decided:
    kind, job = DecisionKind(row["kind"]), row["job_id"]
    return Decided(
        TriggerId(str(row["trigger_id"])),
        TenantId(row["tenant_id"]),
        kind,
        None if job is None else JobId(str(job)),
        (row["decided_at"] - row["fire_at"]).total_seconds(),
        definition if kind is DecisionKind.FIRED else None,
    )


def is_due(wait: timedelta | None) -> bool:
    return wait is not None and wait <= timedelta()


def _joined(plans: Sequence[FirePlan], now: datetime) -> FirePlan:
    """Returns one plan for a fan-out that begins: the missed fires of its beginning, and its first tenants.

    A schedule that is still due goes on behind all others that are due now.
    """
    fires = tuple(fire for plan in plans for fire in plan.fires)
    last = plans[-1]
    return FirePlan(fires, last.cursor, last.last_at, last.next_at and max(last.next_at, now), last.fan_out)


def _why(error: Exception) -> str:
    why = error.happened if isinstance(error, LeaseholdError) else f"{type(error).__name__}: {error}"
    return process_redactor().text(why)
