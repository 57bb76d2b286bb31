"""The triggers of one tenant, or of all tenants, in DynamoDB. Keys are made from the owner, which no verb takes.

Each change reads the trigger and writes it back if it is as it was read: `changes` counts all writes, `version` those
of the rule. Beside it, the version of the owner's triggers goes up, so that caches of event triggers know.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from uuid_utils import uuid7

from leasehold.engines.dynamodb import trigger_items as items
from leasehold.engines.dynamodb.clock import Clock
from leasehold.engines.dynamodb.errors import ConditionFailed
from leasehold.engines.dynamodb.keys import timestamp
from leasehold.engines.dynamodb.table import NEW, Put, Table, Update
from leasehold.engines.dynamodb.wire import Item
from leasehold.model.decision import Decision
from leasehold.model.job import TenantId
from leasehold.model.limits import Pause
from leasehold.model.schedule import cursor_at
from leasehold.model.trigger import AllTenants, NewTrigger, Origin, Trigger, TriggerId, trigger_id

Changes = Mapping[str, Any]
"""Attributes to set; None removes one."""
Admit = Callable[[TenantId | AllTenants], Awaitable[None]]
"""Raises UnknownTenant for a tenant that strict tenants refuse."""


async def admit_all(_tenant: TenantId | AllTenants) -> None:
    """Admits each tenant: code may be deployed before its tenant is registered."""


class DynamoTriggers:
    def __init__(self, table: Table, clock: Clock, tenant: TenantId | AllTenants, admit: Admit = admit_all) -> None:
        self._table = table
        self._clock = clock
        self._tenant = tenant
        self._admit = admit

    async def add(self, rule: NewTrigger, created_by: str | None = None) -> Trigger:
        await self._admit(self._tenant)
        item = await self._new(TriggerId(str(uuid7())), rule, Origin.DATA, created_by)
        await self._write(Put(item, NEW))
        return items.shown(item)

    async def declare(self, trigger: TriggerId, rule: NewTrigger) -> bool:
        """Adds a trigger of the code. Returns whether it is new: another process may just have added it."""
        try:
            await self._write(Put(await self._new(trigger, rule, Origin.CODE, None), NEW))
        except ConditionFailed:
            return False
        return True

    async def _new(self, trigger: TriggerId, rule: NewTrigger, origin: Origin, created_by: str | None) -> Item:
        now = await self._clock.now()
        item = items.new_item(self._tenant, trigger, rule, origin, created_by, now)
        return item | _begin(trigger, rule, None, now)

    async def get(self, trigger: TriggerId, *, deleted: bool = False) -> Trigger | None:
        item = await self._read(trigger)
        return items.shown(item) if item is not None and items.is_deleted(item) is deleted else None

    async def list(self, limit: int, after: TriggerId | None = None) -> Sequence[Trigger]:
        found = [items.shown(item) async for item in self._live(after, limit)]
        return found[:limit]

    async def search(self, label: str, end: str | None, limit: int) -> Sequence[Trigger]:
        return best(label, end, limit, [item async for item in self._live()])

    async def change(self, seen: Trigger, rule: NewTrigger, *, restore: bool = False) -> Trigger | None:
        begins = rule.schedule != seen.rule.schedule or (rule.enabled and not seen.rule.enabled) or restore

        def changed(item: Item, now: datetime) -> Changes | None:
            if item["version"] != seen.version or (items.is_deleted(item) and not restore):
                return None
            keeps = {"last_fire_at": None} if rule.event is not None else {}
            if begins:
                place = _begin(seen.id, rule, items.pause_of(item), now) | {"fan_out_at": None, "fan_out_after": None}
            else:
                place = {} if rule.enabled else items.look_attributes(seen.id, None)
            version = {"version": item["version"] + 1, "updated_at": _stamp(now), "deleted_at": None}
            return items.rule_attributes(rule) | keeps | place | version

        return await self._change(seen.id, changed)

    async def pause(self, trigger: TriggerId, pause: Pause | None) -> Trigger | None:
        def paused(item: Item, now: datetime) -> Changes | None:
            if items.is_deleted(item):
                return None
            known = items.shown(item)
            stored = _ended(known, now) if pause is None else pause
            look = _look_at(known, stored, now) if known.rule.enabled else None
            return items.pause_attributes(stored, now) | items.look_attributes(trigger, look)

        return await self._change(trigger, paused)

    async def delete(self, trigger: TriggerId) -> bool:
        def deleted(item: Item, now: datetime) -> Changes | None:
            if items.is_deleted(item):
                return None
            gone = {"deleted_at": _stamp(now), "updated_at": _stamp(now), "version": item["version"] + 1}
            return gone | {"fan_out_at": None, "fan_out_after": None} | items.look_attributes(trigger, None)

        return await self._change(trigger, deleted) is not None

    async def decisions(self, trigger: TriggerId, limit: int) -> Sequence[Decision]:
        found: list[Decision] = []
        pages = self._table.query(
            "#PK = :pk",
            {"pk": items.decisions_pk(self._tenant, trigger_id(trigger))},
            limit=min(limit, 1000),
            backward=True,
        )
        async for item in pages:
            found.append(items.read_decision(item))
            if len(found) == limit:
                break
        return found

    async def latest_decisions(self, triggers: Sequence[TriggerId]) -> Sequence[Decision]:
        found = await asyncio.gather(*(self.decisions(each, 1) for each in triggers))
        return [decision for decisions in found for decision in decisions]

    # ------------------------------------------------------------------------------------------------- read and write

    async def _read(self, trigger: TriggerId) -> Item | None:
        return await self._table.get(items.trigger_key(self._tenant, trigger))

    async def _live(self, after: TriggerId | None = None, limit: int | None = None) -> AsyncIterator[Item]:
        """Yields triggers that are not deleted, by their ids."""
        start = f"{items.TRIGGER}{after or ''}"
        condition, seen = "#PK = :pk AND #SK BETWEEN :first AND :last", 0
        values = {"pk": items.owner_pk(self._tenant), "first": start, "last": f"{items.TRIGGER}~"}
        async for item in self._table.query(condition, values):
            if item["SK"] != start and not items.is_deleted(item):
                yield item
                seen += 1
                if seen == limit:
                    return

    async def _change(
        self, trigger: TriggerId, changed: Callable[[Item, datetime], Changes | None]
    ) -> Trigger | None:
        """Writes a change of the trigger as it is; asks again if it was changed meanwhile. None: nothing to write."""
        while (item := await self._read(trigger)) is not None:
            sets = changed(item, await self._clock.now())
            if sets is None:
                return None
            try:
                await self._write(change_of(item, sets))
            except ConditionFailed:
                continue
            return items.shown({name: value for name, value in {**item, **sets}.items() if value is not None})
        return None

    async def _write(self, write: Put | Update) -> None:
        counted = Update(items.version_key(self._tenant), {}, more="ADD #version :one", values={"one": 1})
        await self._table.transact([write, counted])


def change_of(item: Item, sets: Changes) -> Update:
    """Returns the write of a change, which is refused if the trigger was changed since it was read."""
    return Update(
        (item["PK"], item["SK"]),
        {**sets, "changes": item["changes"] + 1},
        "#changes = :seen_changes",
        {"seen_changes": item["changes"]},
    )


def best(label: str, end: str | None, limit: int, found: Sequence[Item]) -> Sequence[Trigger]:
    """Returns triggers with this label, then those whose id ends so, each the oldest first."""
    fit = [item for item in found if item["label"] == label or (end and item["id"].endswith(end))]
    return [items.shown(item) for item in sorted(fit, key=lambda item: (item["label"] != label, item["id"]))[:limit]]


def _begin(trigger: TriggerId, rule: NewTrigger, pause: Pause | None, now: datetime) -> dict[str, Any]:
    """Returns the place of a schedule that begins now."""
    cursor = None if rule.schedule is None else cursor_at(rule.schedule, now)
    return items.place_attributes(trigger, rule, cursor, items.begin_at(rule, cursor, pause))


def _ended(known: Trigger, now: datetime) -> Pause | None:
    """Returns the pause of a trigger as one that ends now, if it has missed fires: a scheduler tells why."""
    if known.pause is None or known.cursor is None or not known.rule.enabled or known.unreadable:
        return None
    look = _look_at(known, None, now)
    if look is None or look > now:
        return None
    return Pause(known.pause.why, now if known.pause.until is None else min(now, known.pause.until))


def _look_at(known: Trigger, pause: Pause | None, now: datetime) -> datetime | None:
    """Returns when schedulers look at the trigger. One whose schedule can't be read here is left to them."""
    if known.cursor is None:
        return None
    if "schedule" not in known.unreadable:
        return items.begin_at(known.rule, known.cursor, pause)
    return now if pause is None else pause.until


def _stamp(now: datetime) -> str:
    return timestamp(now)
