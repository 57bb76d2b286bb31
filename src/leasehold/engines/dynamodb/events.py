"""The events of one tenant in DynamoDB.

An event, its jobs and its decisions are one transaction if they fit into one. Otherwise the event is written first,
as one that waits: its jobs follow in parts, each with its decisions, and the event is marked as expanded at the end.
A decision has the event in its key, so a part that is written again changes nothing. The scheduler expands events
that a process has left behind.

    PK                         SK
    tenant#<tenant>#events     event#<id>
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from random import random
from typing import Any, NoReturn

from uuid_utils import uuid7

from leasehold.engines.dynamodb import trigger_items as items
from leasehold.engines.dynamodb.clock import Clock
from leasehold.engines.dynamodb.enqueue import FIRST_PAUSE, LONGEST_PAUSE, TRIES, Enqueueing
from leasehold.engines.dynamodb.enqueue_plan import WINDOW, Plan
from leasehold.engines.dynamodb.errors import ConditionFailed
from leasehold.engines.dynamodb.event_triggers import EventTriggers, Known
from leasehold.engines.dynamodb.keys import Key, due_sk, hold_pk, read_timestamp, timestamp
from leasehold.engines.dynamodb.placement import Placed, Placement
from leasehold.engines.dynamodb.table import EXISTS, MOST_IN_TRANSACTION, NEW, Put, Table, Update, Write
from leasehold.engines.dynamodb.wire import MOST_IN_REQUEST, Item
from leasehold.errors import IdReused, InvalidInput, TransactionConflict
from leasehold.faults import reach
from leasehold.model import payload as payloads
from leasehold.model.decision import Decision
from leasehold.model.event import Event, EventId, NewEvent
from leasehold.model.event_plan import Emitted, EventDecision, emitted, plan_event
from leasehold.model.job import JobId, TenantId
from leasehold.model.trigger import Trigger
from leasehold.store import KeyHolder

DUE_EVENTS = "events"
"""The partition of events that wait, in the due index."""


def events_pk(tenant: TenantId) -> str:
    return f"tenant#{tenant}#events"


def event_key(tenant: TenantId, event: EventId) -> Key:
    return events_pk(tenant), f"event#{event}"


@dataclass(frozen=True, slots=True)
class EventParts:
    """All that events of any tenant need."""

    table: Table
    clock: Clock
    triggers: EventTriggers


class DynamoEvents:
    def __init__(self, parts: EventParts, tenant: TenantId, enqueueing: Enqueueing) -> None:
        self._table, self._clock, self._triggers = parts.table, parts.clock, parts.triggers
        self._tenant = tenant
        self._enqueueing = enqueueing

    async def emit(self, event: NewEvent, *, wakes: bool = True) -> Emitted:
        await self._enqueueing.admit()
        now = await self._clock.now()
        new = Event(
            event.id or EventId(str(uuid7())),
            self._tenant,
            event.name,
            payloads.decode(event.text),
            now,
            event.correlation_id,
            event.created_by,
            trace_context=event.trace_context,
        )
        found = await self._triggers.matching(self._tenant, event.name, now)
        if not found:
            return await self._write(new)
        plan = plan_event(new, await self._triggers.candidates(found))
        reach("before_event_placed")
        answer = await self._place(new, plan, found)
        reach("after_event_placed")
        if wakes and answer.jobs:
            self._enqueueing.poke()
        return answer

    async def prepare(self, event: NewEvent, *, wakes: bool = True) -> NoReturn:
        raise InvalidInput(
            "this engine can't write within your transaction: DynamoDB knows no transactions of others. Nothing was "
            "emitted.",
            fix="Emit without within(…).",
        )

    async def list(self, limit: int, before: EventId | None = None, name: str | None = None) -> Sequence[Event]:
        values = {"pk": events_pk(self._tenant), "first": "event#", "last": f"event#{before or '~'}"}
        found: list[Event] = []
        pages = self._table.query("#PK = :pk AND #SK BETWEEN :first AND :last", values, backward=True)
        async for item in pages:
            if item["event_id"] != before and name in (None, item["name"]):
                found.append(read_event(item))
            if len(found) == limit:
                break
        return found

    async def decisions(self, events: Sequence[Event], triggers: Sequence[Trigger]) -> Sequence[Decision]:
        keys = [
            (items.decisions_pk(trigger.tenant, trigger.id), items.event_sk(event.at, event.id))
            for event in events
            for trigger in triggers
        ]
        stored = await self._table.get_many(keys) if keys else {}
        found = [items.read_decision(stored[key]) for key in keys if key in stored]
        return [decision for decision in found if decision.tenant == self._tenant]

    async def holders(self, keys: Sequence[str]) -> Mapping[str, KeyHolder]:
        wanted = {(hold_pk(self._tenant, key), WINDOW): key for key in keys}
        found = await self._table.get_many(wanted) if wanted else {}
        now = timestamp(await self._clock.now())
        return {
            wanted[key]: KeyHolder(JobId(item["job_id"]), read_timestamp(item["expires_at"]))
            for key, item in found.items()
            if item.get("expires_at", "") > now
        }

    # -------------------------------------------------------------------------------------------------------- write

    async def _write(self, event: Event) -> Emitted:
        """Writes an event that no trigger matches."""
        try:
            await self._table.put(event_item(event, expanded=True), NEW)
        except ConditionFailed as failed:
            _require_same(event, failed.item)
            return Emitted(event.id, event.tenant, event.name, expanded=True, created=False)
        return Emitted(event.id, event.tenant, event.name, expanded=True)

    async def _place(self, event: Event, plan: Sequence[EventDecision], found: Sequence[Known]) -> Emitted:
        """Writes an event with its jobs and decisions. Looks again if others took a dedupe key meanwhile."""
        pause = FIRST_PAUSE
        for _ in range(TRIES):
            placed = await self._planned(event, plan)
            writes = [write for each in placed for write in self._writes(event, each, found)]
            fits = len(writes) < MOST_IN_TRANSACTION and size_of(writes) < MOST_IN_REQUEST
            try:
                if not fits:
                    return await self._place_in_parts(event, plan, found)
                await self._table.transact([Put(event_item(event, expanded=True), NEW), *writes])
            except ConditionFailed as failed:
                if (before := failed.items[0]) is not None:
                    return await self._repeated(event, plan, found, before)
                await asyncio.sleep(pause * (0.5 + random()))
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                return emitted(event, plan, [_recorded(each.decision, event.at) for each in placed])
        raise conflict()

    async def _planned(self, event: Event, plan: Sequence[EventDecision]) -> Sequence[Placed]:
        now = event.at if event.expanded_at is None else await self._clock.now()
        return await Placement(self._enqueueing, Plan(self._tenant, self._table.shards, now)).place(plan)

    def _writes(self, event: Event, placed: Placed, found: Sequence[Known]) -> Sequence[Write]:
        return [*placed.writes, Put(self._decision_item(event, placed.decision, found), NEW)]

    def _decision_item(self, event: Event, decision: Decision, found: Sequence[Known]) -> Item:
        owner = next(known.owner for known in found if known.id == decision.trigger)
        return items.decision_item(owner, decision, event.at, items.event_sk(event.at, event.id))

    async def _repeated(
        self, event: Event, plan: Sequence[EventDecision], found: Sequence[Known], before: Item
    ) -> Emitted:
        """Answers with the decisions of the first call, and finishes its work if it was left behind."""
        _require_same(event, before)
        first = read_event(before)
        if first.expanded_at is None:
            await self.expand(first)
        decisions = await self._decided(first, found)
        return emitted(first, plan, list(decisions.values()), created=False)

    # -------------------------------------------------------------------------------------------------- in parts

    async def _place_in_parts(self, event: Event, plan: Sequence[EventDecision], found: Sequence[Known]) -> Emitted:
        await self._table.put(event_item(event, expanded=False), NEW)
        decisions = await self._expand(event, plan, found)
        return emitted(event, plan, decisions)

    async def expand(self, event: Event) -> Emitted:
        """Lets triggers decide about an event that waits. The answer has what they decided in this call."""
        found = await self._triggers.matching(self._tenant, event.name, event.at)
        before = await self._decided(event, found)
        plan = plan_event(event, await self._triggers.candidates(found))
        reach("before_event_expanded")
        decisions = await self._expand(event, plan, found)
        reach("after_event_expanded")
        return emitted(event, plan, [each for each in decisions if each.trigger not in before], created=False)

    async def _expand(
        self, event: Event, plan: Sequence[EventDecision], found: Sequence[Known]
    ) -> Sequence[Decision]:
        pause = FIRST_PAUSE
        for _ in range(TRIES):
            decided = await self._decided(event, found)
            left = [each for each in plan if each.decision.trigger not in decided]
            try:
                for part in _parts([self._writes(event, each, found) for each in await self._planned(event, left)]):
                    await self._table.transact(part)
            except ConditionFailed:
                await asyncio.sleep(pause * (0.5 + random()))
                pause = min(2 * pause, LONGEST_PAUSE)
                continue
            await self._mark_expanded(event)
            final = await self._decided(event, found)
            return [final[each.decision.trigger] for each in plan if each.decision.trigger in final]
        raise conflict()

    async def _mark_expanded(self, event: Event) -> None:
        sets = {"due_pk": None, "due_sk": None, **_expanded(await self._clock.now())}
        await self._table.update(Update(event_key(event.tenant, event.id), sets, EXISTS), returns="NONE")

    async def _decided(self, event: Event, found: Sequence[Known]) -> dict[str, Decision]:
        sk = items.event_sk(event.at, event.id)
        keys = [(items.decisions_pk(known.owner, known.id), sk) for known in found]
        stored = await self._table.get_many(keys) if keys else {}
        decisions = [items.read_decision(stored[key]) for key in keys if key in stored]
        return {decision.trigger: decision for decision in decisions}


def event_item(event: Event, *, expanded: bool) -> dict[str, Any]:
    pk, sk = event_key(event.tenant, event.id)
    waits = {"due_pk": DUE_EVENTS, "due_sk": due_sk(event.at, JobId(event.id))}
    return {
        "PK": pk,
        "SK": sk,
        "tenant_id": event.tenant,
        "event_id": event.id,
        "name": event.name,
        "data": payloads.encode_plain(event.data),
        "emitted_at": timestamp(event.at),
        "correlation_id": event.correlation_id,
        "created_by": event.created_by,
        "trace_context": event.trace_context,
        **(_expanded(event.at) if expanded else waits),
    }


def _expanded(at: datetime) -> dict[str, Any]:
    """An event that still waits has no TTL: its jobs would be lost with it."""
    return {"expanded_at": timestamp(at), "ttl": int((at + items.KEPT).timestamp())}


def read_event(item: Item) -> Event:
    return Event(
        EventId(item["event_id"]),
        TenantId(item["tenant_id"]),
        item["name"],
        payloads.decode(item["data"]),
        read_timestamp(item["emitted_at"]),
        item.get("correlation_id"),
        item.get("created_by"),
        items.moment(item, "expanded_at"),
        item.get("trace_context"),
    )


def _recorded(decision: Decision, at: datetime) -> Decision:
    return replace(decision, at=at)


def _require_same(event: Event, before: Item | None) -> None:
    """Raises IdReused if another event has the id."""
    if before is None or before["name"] != event.name or payloads.decode(before["data"]) != event.data:
        raise IdReused(
            f"the id {event.id} was used before, for another event. Nothing was emitted.",
            fix="Bring a new id for a new event; repeat an old one unchanged.",
        )


def size_of(writes: Sequence[Write]) -> int:
    return sum(len(write.item.get("payload", "")) + 2000 for write in writes if isinstance(write, Put))


def _parts(groups: Sequence[Sequence[Write]]) -> Iterator[list[Write]]:
    """Yields transactions. The writes of one decision stay together."""
    part: list[Write] = []
    for group in groups:
        if part and (
            len(part) + len(group) > MOST_IN_TRANSACTION or size_of(part) + size_of(group) > MOST_IN_REQUEST
        ):
            yield part
            part = []
        part += group
    if part:
        yield part


def conflict() -> TransactionConflict:
    return TransactionConflict(
        "a dedupe key was taken and freed by others all the time. Nothing was emitted.", fix="Try again."
    )
