"""An open Postgres store: everything that workers ask for, as statements. tenant.py has the jobs of a tenant."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Any, overload
from uuid import uuid4

import orjson
from asyncpg import Record

from leasehold.engines.postgres import listen, results, rows
from leasehold.engines.postgres.activity import PostgresActivity
from leasehold.engines.postgres.administration import PostgresAdministration
from leasehold.engines.postgres.all_triggers import PostgresAllTriggers
from leasehold.engines.postgres.claim.claim import Claiming
from leasehold.engines.postgres.claim.positions import HeartbeatLooks
from leasehold.engines.postgres.claim.reader import ClaimReader
from leasehold.engines.postgres.confined import TenantDatabases
from leasehold.engines.postgres.database import Database, Link
from leasehold.engines.postgres.enqueue import KnownTenants
from leasehold.engines.postgres.event_triggers import EventTriggers
from leasehold.engines.postgres.events import PostgresEvents
from leasehold.engines.postgres.fleet_snapshot import PostgresSnapshots
from leasehold.engines.postgres.handler_transaction import LentConnections, handler_transaction
from leasehold.engines.postgres.links import Links
from leasehold.engines.postgres.operations import PostgresOperations
from leasehold.engines.postgres.saved_views import PostgresSavedViews
from leasehold.engines.postgres.schedules import PostgresSchedules
from leasehold.engines.postgres.series import PostgresSeries
from leasehold.engines.postgres.sessions import PostgresSessions
from leasehold.engines.postgres.tenant import PostgresTenantJobs
from leasehold.engines.postgres.tokens import PostgresTokens
from leasehold.engines.postgres.triggers import PostgresTriggers
from leasehold.engines.postgres.usage import PostgresUsage
from leasehold.engines.postgres.watching import PostgresWatcher
from leasehold.errors import ValueRefused
from leasehold.model.job import Claim, LogLine, TenantId, WorkerId
from leasehold.model.outcome import Verdict
from leasehold.model.payload import make_storable
from leasehold.model.status import Status
from leasehold.model.trigger import AllTenants
from leasehold.store import (
    Abilities,
    AsyncFinishingTransaction,
    Claimed,
    DueWork,
    FinishingTransaction,
    NextFire,
    Registration,
    Renewal,
    Subscription,
    Wake,
    WorkerFacts,
    WorkerRecord,
)

log = logging.getLogger("leasehold.worker")

LONGEST_LINE = 10_000
KEPT_HANDLES = 1_000


class PostgresStore(PostgresAdministration, PostgresSeries, PostgresUsage, PostgresActivity, PostgresSnapshots):
    """An open engine.

    A claim commits asynchronously: after a database crash an attempt number may be handed out again, even to the same
    worker. But each claim statement of a process has its own number, which is part of the fence. A claim of a
    definition with `durable_claims` is flushed to disk before the worker gets it. Enqueue and finish are always
    durable.
    """

    abilities = Abilities(
        caller_transaction=True,
        exact_caps=True,
        priorities=True,
        exact_fairness=True,
        atomic_bulk=True,
        wakes=True,
        adaptive_polling=False,
        fenced_logs=True,
        schedules=True,
        atomic_audit=True,
        series=True,
        upkeep=True,
    )

    def __init__(
        self,
        database: Database,
        *,
        links: Links | None = None,
        tenant_role: str | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._databases = TenantDatabases(database, tenant_role)
        super().__init__(self._databases)
        self._links = links or Links.of(database)
        self._event_triggers = EventTriggers()
        self.schedules = PostgresSchedules(database, self._event_triggers)
        self.all_triggers = PostgresAllTriggers(database)
        self.operations = PostgresOperations(self._databases)
        self.tokens = PostgresTokens(database)
        self.sessions = PostgresSessions(database)
        self.saved_views = PostgresSavedViews(database)
        self._results = results.Results(self._databases)
        self._lent = LentConnections(database)
        known = KnownTenants(monotonic)
        # Kept, since each enqueue asks for one: to make it takes as long as to check the payload.
        self._handle_of = lru_cache(KEPT_HANDLES)(
            lambda tenant: PostgresTenantJobs(self._databases, tenant, self._results, known)
        )
        self._reader = ClaimReader(database)
        self._monotonic = monotonic
        self._looks: dict[WorkerId, HeartbeatLooks] = {}
        self._claiming = Claiming(database, self._links.claim, self._reader, monotonic)

    def tenant(self, tenant: TenantId) -> PostgresTenantJobs:
        return self._handle_of(tenant)

    async def close(self) -> None:
        parts = (self._results, self._lent, self._links, self.schedules, self.operations, self._database)
        await asyncio.gather(*(part.close() for part in parts))

    # ------------------------------------------------------------------------------------------------------
    # registrations

    async def join(self, serves: Subscription, facts: WorkerFacts, lease: timedelta) -> Registration:
        registration = Registration(WorkerId(str(uuid4())), serves)
        await self._database.fetch(
            "fleet/join",
            worker=registration.worker,
            host=facts.host,
            pid=facts.pid,
            version=facts.version,
            slots=facts.slots,
            metadata=orjson.dumps(facts.metadata).decode(),
            lease=lease,
            **rows.subscription_columns(registration),
        )
        return registration

    async def renew(
        self,
        registration: Registration,
        held: Sequence[Claim],
        lease: timedelta,
        *,
        look: bool = False,
        probe: bool = False,
    ) -> Renewal:
        looks = self._looks.setdefault(registration.worker, HeartbeatLooks())
        thorough, due_from = looks.begin(self._monotonic())
        (row,) = await self._links.heartbeat.fetch(
            "fleet/renew",
            worker=registration.worker,
            lease=lease,
            definitions=registration.serves.definitions,
            serves_tenants=registration.serves.tenants,
            look=look,
            probe=probe,
            thorough=thorough,
            due_from=due_from,
            cheap=looks.CHEAP,
            **rows.fences(held),
        )
        if thorough:
            looks.note_thorough_look(row["seconds"], dead_rows=row["dead_rows"], now=self._monotonic())
        if row["next_due"] is None or row["next_due"] > timedelta():
            looks.note_none_overdue(row["looked_at"])
        if not row["alive"]:
            self._looks.pop(registration.worker, None)
        still = {number - 1 for number in row["held"]}
        return Renewal(
            alive=row["alive"],
            lost=frozenset(claim for number, claim in enumerate(held) if number not in still),
            cancels=frozenset(held[number - 1] for number in row["cancels"]),
            orphans=row["orphans"],
            strays=row["strays"],
            next_due=row["next_due"],
            work_waits=row["work_waits"],
            next_fire=row["next_fire"],
            next_operation=row["next_operation"],
        )

    async def leave(self, registration: Registration, *, has_claimed: bool = True) -> None:
        self._claiming.forget(registration)
        self._looks.pop(registration.worker, None)
        await self._database.fetch("fleet/leave", worker=registration.worker, has_claimed=has_claimed)

    async def note_drain(self, registration: Registration) -> None:
        await self._database.fetch("fleet/note_drain", worker=registration.worker)

    async def evict(self, limit: int) -> Sequence[Claim]:
        return await self._reader.read(await self._links.upkeep.fetch("fleet/evict", limit=limit))

    async def held(self, registration: Registration) -> Sequence[Claim]:
        return await self._reader.read(await self._links.finish.fetch("fleet/held", worker=registration.worker))

    async def workers(self) -> Sequence[WorkerRecord]:
        return [rows.worker(row) for row in await self._database.fetch("fleet/workers")]

    # ---------------------------------------------------------------------------------------------------- claiming

    async def claim(self, registration: Registration, limit: int) -> Claimed:
        return await self._flushed(await self._claiming.claim(registration, limit))

    async def _flushed(self, claimed: Claimed) -> Claimed:
        if any(claim.definition.durable_claims for claim in claimed.claims):
            await self._links.claim.fetch("fleet/flush_claims")
        return claimed

    async def prepare_to_sleep(self, registration: Registration, limit: int = 1) -> Claimed:
        served = rows.subscription_columns(registration)
        (sleep,) = await self._links.claim.fetch("fleet/sleep", worker=registration.worker, **served)
        ((quiet,),) = await self._links.claim.fetch("fleet/may_sleep", definitions=registration.serves.definitions)
        claimed = await self._flushed(await self._claiming.claim_before_sleep(registration, limit))
        if claimed.claims:
            await self._links.claim.fetch("fleet/cancel_sleep", worker=registration.worker)
        elif not quiet:
            return Claimed((), True, claimed.next_due)
        elif not claimed.more and claimed.next_due is not None:
            await self._links.claim.fetch("fleet/set_wake_time", sleep=sleep["id"], next_due=claimed.next_due)
        return claimed

    def wakes(self, registration: Registration) -> AsyncGenerator[Wake | DueWork | NextFire, None]:
        return listen.wakes(self._database, registration.worker)

    async def wake_another(self, registration: Registration) -> None:
        served = rows.subscription_columns(registration)
        await self._links.claim.fetch("fleet/wake_another", worker=registration.worker, **served)

    # --------------------------------------------------------------------------------------------------- finishing

    async def finish(self, done: Sequence[tuple[Claim, Verdict]], *, reclaimed: bool = False) -> frozenset[Claim]:
        link = self._links.upkeep if reclaimed else self._links.finish
        ended: list[tuple[Claim, Verdict]] = []
        again: list[tuple[Claim, Verdict]] = []
        # In the order of the key, in which cancels lock, too: batches that cross would wait for each other.
        for each in sorted(done, key=lambda each: (each[0].tenant, each[0].job)):
            (ended if each[1].status.final else again).append(each)
        refused = await _requeue(link, again) if again else []
        # Refused may mean fenced off, or that a cancel was requested: then it ends here, if its fence holds.
        ended += [(claim, _as_canceled(verdict)) for claim, verdict in refused]
        if not ended:
            return frozenset()
        answer = await link.fetch("fleet/finish", **rows.endings(ended))
        return frozenset(claim for claim, _ in _find_refused(ended, answer))

    async def append_log(self, lines: Sequence[tuple[Claim, LogLine]]) -> frozenset[Claim]:
        try:
            return await self._append(lines)
        except ValueRefused as error:
            if len(lines) == 1:
                claim, line = lines[0]
                log.warning("line %d of job %s is left out: %s", line.number, claim.job, error)
                return frozenset()
        return frozenset().union(*[await self.append_log([each]) for each in lines])

    async def _append(self, lines: Sequence[tuple[Claim, LogLine]]) -> frozenset[Claim]:
        held = await self._links.finish.fetch(
            "fleet/append_log",
            **rows.fences(claim for claim, _ in lines),
            workers=[claim.worker for claim, _ in lines],
            numbers=[line.number for _, line in lines],
            kinds=[line.kind.value for _, line in lines],
            texts=[make_storable(line.text, LONGEST_LINE) for _, line in lines],
            progresses=[line.progress and min(1.0, max(0.0, line.progress)) for _, line in lines],
        )
        holding = {rows.fence(row) for row in held}
        return frozenset(claim for claim, _ in lines if rows.fence_of(claim) not in holding)

    @overload
    def transaction(self, claim: Claim, given: None) -> AsyncFinishingTransaction: ...
    @overload
    def transaction(self, claim: Claim, given: object | None) -> FinishingTransaction: ...
    def transaction(self, claim: Claim, given: object | None) -> FinishingTransaction:
        return handler_transaction(self._database, self._lent, claim, given)

    async def prune(self, limit: int) -> int:
        return await self._links.upkeep.prune(limit)

    async def roll_up(self) -> bool:
        ((more,),) = await self._links.upkeep.fetch("fleet/roll_up")
        return bool(more)

    def watch_changes(self) -> PostgresWatcher:
        return PostgresWatcher(self._database)

    # ---------------------------------------------------------------------------------------------------- triggers

    def triggers(self, tenant: TenantId | AllTenants) -> PostgresTriggers:
        confined = self._database if isinstance(tenant, AllTenants) else self._databases.of(tenant)
        return PostgresTriggers(confined, tenant)

    def events(self, tenant: TenantId) -> PostgresEvents:
        return PostgresEvents(self._databases.of(tenant), tenant, self.tenant(tenant), self._event_triggers)


async def _requeue(link: Link, again: Sequence[tuple[Claim, Verdict]]) -> list[tuple[Claim, Verdict]]:
    """Queues jobs again. Returns the verdicts that were refused."""
    verdicts = [verdict for _, verdict in again]
    answer = await link.fetch(
        "fleet/requeue",
        **_verdict_columns(again),
        delays=[verdict.delay for verdict in verdicts],
        forgiven=[verdict.free_attempts for verdict in verdicts],
    )
    return _find_refused(again, answer)


def _find_refused(sent: Sequence[tuple[Claim, Verdict]], answer: Sequence[Record]) -> list[tuple[Claim, Verdict]]:
    """Returns the verdicts whose number did not come back."""
    held = set(answer[0]["held"] or ())
    return [] if len(held) == len(sent) else [each for number, each in enumerate(sent, 1) if number not in held]


def _verdict_columns(done: Iterable[tuple[Claim, Verdict]]) -> dict[str, list[Any]]:
    claims, verdicts = zip(*done, strict=True)
    return {
        **rows.fences(claims),
        "workers": [claim.worker for claim in claims],
        "attempt_statuses": [verdict.attempt.value for verdict in verdicts],
        "errors": [verdict.error for verdict in verdicts],
        "error_codes": [verdict.error_code for verdict in verdicts],
        "exit_codes": [verdict.exit_code for verdict in verdicts],
        "details": [verdict.details for verdict in verdicts],
    }


def _as_canceled(verdict: Verdict) -> Verdict:
    return Verdict(
        Status.CANCELED,
        verdict.attempt,
        error=verdict.error,
        error_code=verdict.error_code,
        exit_code=verdict.exit_code,
        details=verdict.details,
    )
