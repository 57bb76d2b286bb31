"""Reasons to hold jobs back: pauses, limits and inactive definitions.

Few scopes are held at a time. All are read together, and again only when the number of their last change has
changed; that number is one small item, read by each claim.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from leasehold.engines.dynamodb.definitions import Definitions, active_update
from leasehold.engines.dynamodb.errors import ConditionFailed
from leasehold.engines.dynamodb.keys import CONTROL, CONTROL_VERSION, Key, read_timestamp, timestamp
from leasehold.engines.dynamodb.table import Delete, Table, Update, Write
from leasehold.engines.dynamodb.wire import Item
from leasehold.errors import UnknownDefinition
from leasehold.model.definition import Registered, no_such_definition
from leasehold.model.job import TenantId
from leasehold.model.limits import Limits, Pause, Scope, ScopeKind
from leasehold.model.overrides import ACTIVE, OverrideChange
from leasehold.store import ScopeRecord


@dataclass(frozen=True, slots=True)
class Paused:
    """A pause as it is stored, without end if `until` is None."""

    why: str
    until: datetime | None
    since: datetime | None
    by: str | None


@dataclass(frozen=True, slots=True)
class Holds:
    """The held scopes at one moment."""

    inactive: frozenset[str] = frozenset()
    pauses: dict[Scope, Paused] = field(default_factory=dict)
    limits: dict[Scope, int] = field(default_factory=dict)

    def pause_of(self, scope: Scope, now: datetime) -> Paused | None:
        pause = self.pauses.get(scope)
        return None if pause is None or (pause.until is not None and pause.until <= now) else pause

    def may_start(self, definition: str, now: datetime) -> bool:
        """Returns whether jobs of the definition may start, for tenants that are not paused."""
        scope = Scope.of_row(ScopeKind.DEFINITION, definition)
        return definition not in self.inactive and self.pause_of(scope, now) is None

    def is_paused(self, tenant: TenantId, now: datetime) -> bool:
        return self.pause_of(Scope.of_row(ScopeKind.TENANT, tenant), now) is not None

    def next_end(self, now: datetime) -> datetime | None:
        """Returns when the next pause ends by itself."""
        ends = (pause.until for pause in self.pauses.values())
        return min((until for until in ends if until is not None and until > now), default=None)


class HoldStore:
    """Reads and changes pauses, limits and inactive definitions."""

    def __init__(self, table: Table, definitions: Definitions) -> None:
        self._table = table
        self._definitions = definitions
        self._version = -1
        self.open_operations = False
        self._holds = Holds()
        self._reading = asyncio.Lock()

    async def read(self) -> Holds:
        """Returns what holds jobs back now."""
        item = await self._table.get(CONTROL_VERSION)
        version = item.get("number", 0) if item else 0
        self.open_operations = bool(item and item.get("operations", 0) > 0)
        if version != self._version:
            async with self._reading:
                if version != self._version:
                    self._holds = _holds([item async for item in self._scopes()])
                    self._version = version
        return self._holds

    async def latest(self) -> Holds:
        """Returns what the last claim of this process has read: enough to know of which limits a job is a part."""
        return self._holds if self._version >= 0 else await self.read()

    def _scopes(self) -> AsyncIterator[Item]:
        return self._table.query("#PK = :pk AND begins_with(#SK, :scope)", {"pk": CONTROL, "scope": "scope#"})

    async def records(self, now: datetime, limit: int) -> Sequence[ScopeRecord]:
        """Returns tenants and definitions that have a limit or a pause now."""
        held = await self.read()
        scopes = sorted({*held.limits, *held.pauses}, key=lambda scope: (scope.kind, scope.key))
        return list(_records(held, scopes, now))[:limit]

    async def record(self, scope: Scope, now: datetime) -> ScopeRecord:
        return next(_records(await self.read(), [scope], now), ScopeRecord(scope, None, None, None))

    async def limit(self, scope: Scope, limits: Limits) -> None:
        await self._change(scope, {"max_running": limits.max_running})

    async def pause(self, scope: Scope, pause: Pause | None, now: datetime) -> None:
        until = timestamp(pause.until) if pause and pause.until else None
        await self._change(
            scope,
            {
                "pause_reason": pause and pause.why,
                "paused_until": until,
                "paused_at": timestamp(now) if pause else None,
                "paused_by": pause and pause.by,
            },
        )

    async def remove(self, scope: Scope) -> None:
        """Forgets all about a scope."""
        await self._table.transact([Delete(_scope_key(scope)), _NEXT_VERSION])
        self._version = -1

    async def activate(self, definition: str, active: bool) -> None:
        scope = Scope.of_row(ScopeKind.DEFINITION, definition)
        change = Update(_scope_key(scope), {**_named(scope), "inactive": None if active else True})
        try:
            await self._table.transact([active_update(definition, active), change, _NEXT_VERSION])
        except ConditionFailed as failed:
            raise await self._unknown(definition) from failed
        self._version = -1

    async def override(
        self, key: str, change: OverrideChange, now: datetime, revision: int | None, create: bool
    ) -> Registered:
        """Overrides fields of a definition. One that becomes active or inactive is held by the same transaction."""
        more: list[Write] = []
        if ACTIVE in change.values or ACTIVE in change.reset:
            scope, inactive = Scope.of_row(ScopeKind.DEFINITION, key), change.values.get(ACTIVE) is False
            held = Update(_scope_key(scope), {**_named(scope), "inactive": True if inactive else None})
            more = [held, _NEXT_VERSION]
        changed = await self._definitions.override(key, change, now, revision, create, more)
        self._version = -1
        return changed

    async def _change(self, scope: Scope, values: dict[str, object]) -> None:
        if scope.kind is ScopeKind.DEFINITION and not await self._definitions.current([scope.key]):
            raise await self._unknown(scope.key)
        await self._table.transact([Update(_scope_key(scope), {**_named(scope), **values}), _NEXT_VERSION])
        self._version = -1

    async def _unknown(self, definition: str) -> UnknownDefinition:
        return no_such_definition(definition, await self._definitions.names())


_NEXT_VERSION = Update(CONTROL_VERSION, {}, None, {"one": 1}, "ADD #number :one")


def _scope_key(scope: Scope) -> Key:
    return CONTROL, f"scope#{scope.kind.value}#{scope.key}"


def _named(scope: Scope) -> dict[str, object]:
    return {"kind": scope.kind.value, "name": scope.key}


def _holds(items: Sequence[Item]) -> Holds:
    inactive, pauses, limits = set(), {}, {}
    for item in items:
        scope = Scope.of_row(ScopeKind(item["kind"]), item["name"])
        if item.get("inactive"):
            inactive.add(scope.key)
        if "pause_reason" in item:
            until, since = _moment(item, "paused_until"), _moment(item, "paused_at")
            pauses[scope] = Paused(item["pause_reason"], until, since, item.get("paused_by"))
        if "max_running" in item:
            limits[scope] = item["max_running"]
    return Holds(frozenset(inactive), pauses, limits)


def _moment(item: Item, name: str) -> datetime | None:
    return read_timestamp(item[name]) if name in item else None


def _records(held: Holds, scopes: Sequence[Scope], now: datetime) -> Iterator[ScopeRecord]:
    for scope in scopes:
        pause, stored = held.pause_of(scope, now), held.pauses.get(scope)
        if pause is not None or scope in held.limits:
            why, by = (pause.why, pause.by) if pause else (None, None)
            yield ScopeRecord(scope, held.limits.get(scope), why, stored.until if stored else None, by)
