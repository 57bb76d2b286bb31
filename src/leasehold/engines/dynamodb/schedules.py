"""Fires schedules that are due: jobs, decisions and the schedule's next place are one transaction for each schedule.

The write of a schedule is refused if another scheduler has moved it on, and the key of a decision is its fire time:
so each fire makes one job for a tenant, however many schedulers run.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from leasehold.engines.dynamodb import trigger_items as items
from leasehold.engines.dynamodb.all_triggers import DynamoAllTriggers
from leasehold.engines.dynamodb.enqueue import Enqueueing
from leasehold.engines.dynamodb.enqueue_plan import Plan
from leasehold.engines.dynamodb.errors import ConditionFailed
from leasehold.engines.dynamodb.events import DUE_EVENTS, DynamoEvents, EventParts, read_event
from leasehold.engines.dynamodb.keys import CATALOG, DUE_FROM, due_until, read_due_sk, tenant_sk, timestamp
from leasehold.engines.dynamodb.placement import Placed, Placement
from leasehold.engines.dynamodb.table import DUE, NEW, Put, gather
from leasehold.engines.dynamodb.triggers import change_of
from leasehold.engines.dynamodb.wire import Item
from leasehold.errors import CannotListen, InvalidInput, LeaseholdError, TransactionConflict, Unreachable
from leasehold.model.decision import Decision, DecisionKind, Reason
from leasehold.model.definition import Registered
from leasehold.model.event_plan import EventDecision
from leasehold.model.fire_plan import (
    NO_TENANT,
    TRY_AGAIN,
    Fire,
    FirePlan,
    look_at,
    plan_fan_out,
    plan_fires,
    plan_tenants,
)
from leasehold.model.job import TenantId
from leasehold.model.trigger import ALL, Trigger, TriggerId
from leasehold.model.zone import tzdata_version
from leasehold.store import Decided, FireRound, NextFire

log = logging.getLogger("leasehold.scheduler")

SCHEDULES_AT_ONCE = 50
# A transaction has at most 100 writes: the schedule, and two for each fire.
FIRES_OF_A_SCHEDULE = 45
EVENTS_AT_ONCE = 50
# A trigger that this process can't read is left to others for so long: a newer release may have written it.
LEFT_FOR = 300.0
TRIES = 5


@dataclass(frozen=True, slots=True)
class _Due:
    """A schedule whose time has come, with the definition of its jobs."""

    item: Item
    trigger: Trigger
    definition: Registered | None


class DynamoSchedules:
    def __init__(self, parts: EventParts, enqueueing_of: Callable[[TenantId], Enqueueing]) -> None:
        self._table, self._clock, self._triggers = parts.table, parts.clock, parts.triggers
        self._parts = parts
        self._enqueueing_of = enqueueing_of
        self._unreadable: dict[str, float] = {}

    async def fire_times(self) -> AsyncGenerator[NextFire, None]:
        raise CannotListen(
            "DynamoDB tells no scheduler when a schedule changes: schedulers look for them. No fire is lost.",
            fix="Set LEASEHOLD_NOTIFY=off to begin with looking.",
        )
        yield NextFire(None)

    async def fire_due(self) -> FireRound:
        now = await self._clock.now()
        found = await self._look(now)
        decided = [each for some in await gather(self._fire(due, now) for due in found) for each in some]
        expanded, of_events = await self._expand_events(now)
        decided += of_events
        fired = sum(each.kind is DecisionKind.FIRED for each in decided)
        wait, events_wait = await self.next_fire(now)
        more = bool(found) and wait is not None and wait <= timedelta()
        return FireRound(fired, more, wait, events_wait, expanded, decided)

    # -------------------------------------------------------------------------------------------------------- look

    async def _look(self, now: datetime) -> list[_Due]:
        """Reads the schedules that are due. The index may lag behind: the schedule itself decides."""
        # Those that are left to others stay due, and must not fill the page.
        page = await self._due_entries(items.DUE_SCHEDULES, now, SCHEDULES_AT_ONCE + len(self._left()))
        found = await self._table.get_many((entry["PK"], entry["SK"]) for entry in page)
        due = [item for item in found.values() if _is_due(item, now) and not self._is_left(item)]
        definitions = await self._triggers.registered({item["definition"] for item in due})
        read = [self._read(item, definitions.get(item["definition"])) for item in due]
        return [each for each in read if each is not None]

    async def _due_entries(self, partition: str, now: datetime, limit: int) -> Sequence[Item]:
        values = {"pk": partition, "first": DUE_FROM, "until": due_until(now)}
        condition = "#due_pk = :pk AND #due_sk BETWEEN :first AND :until"
        return (await self._table.page(condition, values, index=DUE, limit=limit)).items

    def _read(self, item: Item, definition: Registered | None) -> _Due | None:
        try:
            return _Due(item, items.trigger(item), definition)
        except InvalidInput as error:
            log.error(
                "trigger %s can't be fired by this process, and is left to others: %s", item["id"], error.happened
            )
            self._unreadable[f"{item['id']}:{item['version']}"] = asyncio.get_running_loop().time() + LEFT_FOR
            return None

    def _is_left(self, item: Item) -> bool:
        return f"{item['id']}:{item['version']}" in self._left()

    def _left(self) -> set[str]:
        """Returns the triggers that this process could not read a while ago, each with that version."""
        now = asyncio.get_running_loop().time()
        self._unreadable = {key: until for key, until in self._unreadable.items() if until > now}
        return set(self._unreadable)

    async def next_fire(self, now: datetime) -> tuple[timedelta | None, bool]:
        """Returns how long until a schedule fires, without those that are left to others; and whether an event waits.

        Less than zero, or zero, if one is overdue or an event waits.
        """
        left = {key.partition(":")[0] for key in self._left()}
        values = {"pk": items.DUE_SCHEDULES, "first": DUE_FROM}
        condition = "#due_pk = :pk AND #due_sk > :first"
        page = await self._table.page(condition, values, index=DUE, limit=len(left) + 1)
        waits = [
            read_due_sk(entry["due_sk"]) - now
            for entry in page.items
            if entry["SK"].removeprefix(items.TRIGGER) not in left
        ]
        events = await self._due_entries(DUE_EVENTS, now, 1)
        wait = timedelta() if events else waits[0] if waits else None
        return wait, bool(events)

    # -------------------------------------------------------------------------------------------------------- fire

    async def _fire(self, due: _Due, now: datetime) -> list[Decided]:
        """Fires one schedule. One that fails is put off, and stops no other one. Returns its decisions."""
        try:
            return await self._fire_once(due, now)
        except (Unreachable, TransactionConflict):
            raise
        except Exception as error:
            why = error.happened if isinstance(error, LeaseholdError) else f"{type(error).__name__}: {error}"
            log.error("trigger %s can't be fired, and is tried again in %s: %s", due.trigger.id, TRY_AGAIN, why)
            await self._postpone(due, now, why)
            return [Decided(due.trigger.id, NO_TENANT, DecisionKind.ERROR, lag=0.0)]

    async def _fire_once(self, due: _Due, now: datetime) -> list[Decided]:
        plan = await self._plan(due, now)
        left = list(plan.fires)
        for _ in range(TRIES):
            placed = await self._place(left, now)
            decisions = [Put(self._decision_item(due, each.decision, now), NEW) for each in placed]
            jobs = [write for each in placed for write in each.writes]
            try:
                await self._table.transact([change_of(due.item, _moved(due.trigger, plan)), *decisions, *jobs])
            except ConditionFailed as failed:
                if failed.items[0] is not None:
                    return []  # another scheduler has moved it on
                decided = {item["SK"] for item in failed.items[1 : len(left) + 1] if item is not None}
                left = [fire for fire in left if _sk_of(fire.decision) not in decided]
            else:
                made = {each.decision.tenant for each in placed if each.decision.kind is DecisionKind.FIRED}
                for tenant in made:
                    self._enqueueing_of(tenant).poke()
                return [_decided(each.decision, now, due.trigger.rule.definition) for each in placed]
        return []

    async def _plan(self, due: _Due, now: datetime) -> FirePlan:
        trigger, definition = due.trigger, due.definition
        if trigger.tenant is not ALL:
            return _behind(plan_fires(trigger, now, definition, FIRES_OF_A_SCHEDULE), now)
        missed: tuple[Fire, ...] = ()
        fan_out = items.fan_out_of(due.item)
        if fan_out is None:
            begun = plan_fan_out(trigger, now)
            missed, fan_out = begun.fires, begun.fan_out
            if fan_out is None:
                return _behind(begun, now)
        names = await self._tenants(fan_out.after, FIRES_OF_A_SCHEDULE)
        plan = plan_tenants(trigger, fan_out, names, definition, complete=len(names) < FIRES_OF_A_SCHEDULE)
        return _behind(replace(plan, fires=missed + plan.fires), now)

    async def _tenants(self, after: str, limit: int) -> list[TenantId]:
        values = {"pk": CATALOG, "after": tenant_sk(TenantId(after)), "last": "tenant$"}
        condition = "#PK = :pk AND #SK BETWEEN :after AND :last"
        page = await self._table.page(condition, values, limit=limit + 1)
        names = [TenantId(item["SK"].removeprefix("tenant#")) for item in page.items]
        return [name for name in names if name > after][:limit]

    async def _place(self, fires: Sequence[Fire], now: datetime) -> list[Placed]:
        """Plans the jobs of fires, tenant by tenant. The answer has their order."""
        placed: dict[int, Placed] = {}
        tenants: dict[TenantId, list[int]] = {}
        for number, fire in enumerate(fires):
            tenants.setdefault(fire.decision.tenant, []).append(number)
        for tenant, numbers in tenants.items():
            wanted = [EventDecision(fires[number].decision, fires[number].job) for number in numbers]
            answers: Sequence[Placed] = [Placed(each.decision) for each in wanted]
            if tenant != NO_TENANT:
                plan = Plan(tenant, self._table.shards, now)
                answers = await Placement(self._enqueueing_of(tenant), plan).place(wanted)
            placed |= dict(zip(numbers, answers, strict=True))
        return [placed[number] for number in range(len(fires))]

    def _decision_item(self, due: _Due, decision: Decision, now: datetime) -> Item:
        return items.decision_item(due.trigger.tenant, decision, now, _sk_of(decision))

    async def _postpone(self, due: _Due, now: datetime, why: str) -> None:
        """Puts off a schedule that can't be fired, and records why."""
        owner = NO_TENANT if due.trigger.tenant is ALL else due.trigger.tenant
        decision = Decision(
            trigger=due.trigger.id,
            tenant=owner,
            kind=DecisionKind.ERROR,
            fire_at=now,
            reason=Reason.UNREADABLE,
            why=why,
        )
        later = items.look_attributes(due.trigger.id, now + TRY_AGAIN)
        try:
            await self._table.transact([change_of(due.item, later), Put(self._decision_item(due, decision, now))])
        except ConditionFailed:
            log.info("trigger %s was changed meanwhile, and is not put off", due.trigger.id)

    # ------------------------------------------------------------------------------------------------------ events

    async def _expand_events(self, now: datetime) -> tuple[int, Sequence[Decided]]:
        """Expands events that a process has left behind. Returns how many, and what triggers decided about them."""
        entries = await self._due_entries(DUE_EVENTS, now, EVENTS_AT_ONCE)
        found = await self._table.get_many((entry["PK"], entry["SK"]) for entry in entries) if entries else {}
        waiting = [read_event(item) for item in found.values() if "due_pk" in item]
        decided: list[Decided] = []
        for event in waiting:
            events = DynamoEvents(self._parts, event.tenant, self._enqueueing_of(event.tenant))
            expanded = await events.expand(event)
            made = expanded.definitions
            decided += [_decided(each, now, each.job and made.get(each.job)) for each in expanded.decisions]
        return len(waiting), decided

    # ------------------------------------------------------------------------------------------------------ tzdata

    async def renew_fire_times(self) -> int:
        renewed = 0
        async for item in DynamoAllTriggers(self._table, self._clock).every():
            if item.get("next_fire_at") and item.get("tzdata", "~") < tzdata_version():
                renewed += await self._renew(item)
        return renewed

    async def _renew(self, item: Item) -> bool:
        try:
            trigger = items.trigger(item)
        except InvalidInput as error:
            log.warning("trigger %s keeps the fire time of an older tzdata: %s", item["id"], error.happened)
            return False
        assert trigger.cursor is not None
        look = look_at(trigger.rule, trigger.cursor, trigger.pause)
        sets = {**items.look_attributes(trigger.id, look), "tzdata": tzdata_version()}
        try:
            await self._table.update(change_of(item, sets), returns="NONE")
        except ConditionFailed:
            return False
        return True


def _decided(decision: Decision, now: datetime, definition: str | None) -> Decided:
    lag = None if decision.fire_at is None else (now - decision.fire_at).total_seconds()
    made = definition if decision.kind is DecisionKind.FIRED else None
    return Decided(decision.trigger, decision.tenant, decision.kind, decision.job, lag, made)


def _is_due(item: Item, now: datetime) -> bool:
    return bool(item.get("next_fire_at")) and item["next_fire_at"] <= timestamp(now) and not items.is_deleted(item)


def _sk_of(decision: Decision) -> str:
    assert decision.fire_at is not None
    return items.fire_sk(decision.fire_at, decision.tenant)


def _behind(plan: FirePlan, now: datetime) -> FirePlan:
    """A schedule that is still due goes on behind all others that are due now."""
    return replace(plan, next_at=plan.next_at and max(plan.next_at, now))


def _moved(trigger: Trigger, plan: FirePlan) -> dict[str, Any]:
    """Returns the place of a schedule after its fires. A pause that is over is removed."""
    fan_out = plan.fan_out
    return {
        **items.place_attributes(TriggerId(trigger.id), trigger.rule, plan.cursor, plan.next_at),
        "last_fire_at": plan.last_at and timestamp(plan.last_at),
        "fan_out_at": fan_out and timestamp(fan_out.fire_at),
        "fan_out_after": fan_out and fan_out.after,
        "paused_at": None,
        "paused_until": None,
        "pause_reason": None,
    }
