"""The definitions in DynamoDB: registered by code, in versions, each changed by one transaction."""

import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from leasehold.engines.dynamodb import definition_items
from leasehold.engines.dynamodb.errors import ConditionFailed
from leasehold.engines.dynamodb.keys import CATALOG, CURRENT, Key, definition_pk, version_sk
from leasehold.engines.dynamodb.table import EXISTS, MOST_IN_TRANSACTION, NEW, Put, Table, Update, Write
from leasehold.engines.dynamodb.wire import Item
from leasehold.errors import InvalidInput, TransactionConflict
from leasehold.model.definition import Change, Definition, Registered, differences, no_such_definition
from leasehold.model.overrides import (
    OverrideChange,
    already_exists,
    as_json,
    effective,
    is_active,
    overridden,
    plan_override,
    require_revision,
)
from leasehold.model.stored_definition import missing_definition, why_unusable

log = logging.getLogger("leasehold.worker")

TRIES = 10
Version = tuple[str, int]


def current_key(key: str) -> Key:
    return definition_pk(key), CURRENT


@dataclass(frozen=True, slots=True)
class Plan:
    """The writes of a sync, in groups that belong together, and its answers."""

    writes: Sequence[Sequence[Write]]
    changes: Sequence[Change]


class Definitions:
    """The definitions of a table. A version never changes, so each is read once."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._versions: dict[Version, Definition] = {}
        self._unusable: dict[Version, str] = {}

    async def sync(self, found: Sequence[Definition], *, adopt: bool = True) -> Sequence[Change]:
        for definition in found:
            definition.check_registrable()
        if len({definition.key for definition in found}) < len(found):
            raise InvalidInput(
                "two definitions have the same key. Nothing was registered.", fix="Give one of them another key."
            )
        for _ in range(TRIES):
            plan = await self._plan(found, adopt)
            try:
                for writes in _chunks(plan.writes):
                    await self._table.transact(writes)
                return plan.changes
            except ConditionFailed:
                continue  # another process has synced at the same time: look again
        raise _always_changed()

    async def _plan(self, found: Sequence[Definition], adopt: bool) -> Plan:
        current = await self.current(definition.key for definition in found)
        steps = [await self._step(definition, current.get(definition.key), adopt) for definition in found]
        return Plan([writes for writes, _ in steps if writes], [change for _, change in steps])

    async def _step(self, definition: Definition, item: Item | None, adopt: bool) -> tuple[Sequence[Write], Change]:
        if item is None:
            return _first_version(definition), Change(definition.key, 1, {}, created=True)
        known = definition_items.read_registered(item)
        kept = overridden(definition, known.overrides)
        applied = effective(definition, known.overrides)
        same = known.declared and not known.unreadable and applied == known.definition
        if same and definition == await self.base(known):
            return (), Change(definition.key, known.version, {}, False, kept, known.revision)
        version, writes = await self._other_version(definition, applied, known, adopt)
        changed = differences(known.definition, applied)
        return writes, Change(definition.key, version, changed, False, kept, known.revision)

    async def base(self, known: Registered) -> Definition:
        """Returns the content without overrides."""
        if known.base is None:
            return known.definition
        found = await self.version(known.definition.key, known.base)
        return found or known.definition

    async def _other_version(
        self, definition: Definition, applied: Definition, known: Registered, adopt: bool
    ) -> tuple[int, Sequence[Write]]:
        """Makes an older version with this content current, or adds a version.

        Old and new processes that restart in turn, as in a rolling deploy, must not add a version each time.
        """
        versions = Versions([item async for item in self._all_versions(definition.key)])
        base = versions.number(definition, None)
        version = base if applied == definition else versions.number(applied, base)
        if adopt:
            versions.writes.append(_replaced(known, applied, version, base, {"declared": True}))
        return version, versions.writes

    async def override(
        self,
        key: str,
        change: OverrideChange,
        now: datetime,
        revision: int | None,
        create: bool,
        more: Sequence[Write],
    ) -> Registered:
        """Sets and resets fields of a definition; `more` is written with it."""
        for _ in range(TRIES):
            known, first = await self._known(key, create)
            require_revision(known, revision)
            base = known.definition if create else await self.base(known)
            after = plan_override(known, base, change, now)
            listed = [first[0].item] if create else [item async for item in self._all_versions(key)]
            versions, number = Versions(listed), known.base or known.version
            applied = effective(base, after)
            version = number if applied == base else versions.number(applied, number)
            sets = {
                "overrides": orjson.dumps(as_json(after)).decode(),
                "revision": known.revision + 1,
                "active": is_active(known, change),
                "declared": known.declared,
            }
            replaced = _replaced(known, applied, version, number, sets)
            writes = _merged(first, replaced) if create else [replaced]
            try:
                await self._table.transact([*writes, *versions.writes, *more])
            except ConditionFailed:
                continue
            return definition_items.read_registered((await self.current([key]))[key])
        raise _always_changed()

    async def _known(self, key: str, create: bool) -> tuple[Registered, list[Put]]:
        """Returns the definition as it is now, or a new one with the writes that register it."""
        item = (await self.current([key])).get(key)
        if create:
            if item is not None:
                raise already_exists(key)
            return Registered(Definition(key), 1, True, declared=False), _first_version(Definition(key))
        if item is None:
            raise no_such_definition(key, await self.names())
        return definition_items.read_registered(item), []

    def _all_versions(self, key: str) -> AsyncIterator[Item]:
        return self._table.query(
            "#PK = :pk AND begins_with(#SK, :version)", {"pk": definition_pk(key), "version": "version#"}
        )

    async def registered(self) -> Sequence[Registered]:
        found = await self.current(await self.names())
        return [definition_items.read_registered(found[key]) for key in sorted(found)]

    async def names(self) -> list[str]:
        listed = self._table.query("#PK = :pk AND begins_with(#SK, :sk)", {"pk": CATALOG, "sk": "definition#"})
        return [item["SK"].removeprefix("definition#") async for item in listed]

    async def current(self, keys: Iterable[str]) -> dict[str, Item]:
        """Returns the current versions of these definitions, as they are now."""
        found = await self._table.get_many(current_key(key) for key in keys)
        return {item["key"]: item for item in found.values()}

    async def version(self, key: str, version: int) -> Definition | None:
        await self.learn([(key, version)])
        return self._versions.get((key, version))

    async def learn(self, wanted: Iterable[Version]) -> None:
        """Reads versions that this process has not read yet."""
        missing = set(wanted) - self._versions.keys()
        if not missing:
            return
        found = await self._table.get_many((definition_pk(key), version_sk(version)) for key, version in missing)
        for item in found.values():
            self._remember(item)

    def _remember(self, item: Item) -> None:
        key, version = item["key"], item["version"]
        self._versions[key, version], unreadable = definition_items.read(item)
        if unreadable:
            log.warning("version %d of %s: %s; defaults stand for it", version, key, "; ".join(unreadable))
        if why := why_unusable(key, version, unreadable):
            self._unusable[key, version] = why

    def get(self, key: str, version: int) -> tuple[Definition, str | None]:
        """Returns a version that was learned, and why its jobs can't run; a stand-in for one that does not exist."""
        if (known := self._versions.get((key, version))) is None:
            return missing_definition(key, version, "table")
        return known, self._unusable.get((key, version))


class Versions:
    """All versions of a definition, and the writes that add more."""

    def __init__(self, items: Sequence[Mapping[str, Any]]) -> None:
        self._items = items
        self._newest: int = items[-1]["version"]
        self.writes: list[Write] = []

    def number(self, content: Definition, base: int | None) -> int:
        """Returns the version with this content that has overrides on this base; a new one if there is none."""
        for item in self._items:
            if item.get("base") == base and definition_items.read(dict(item)) == (content, ()):
                found: int = item["version"]
                return found
        self._newest += 1
        self.writes.append(_version(content, self._newest, base))
        return self._newest


def _first_version(definition: Definition) -> list[Put]:
    pk, sk = current_key(definition.key)
    current = {"PK": pk, "SK": sk, **definition_items.content(definition), "version": 1, "active": True}
    listed = {"PK": CATALOG, "SK": definition_pk(definition.key)}
    return [_version(definition, 1), Put(current, NEW), Put(listed)]


def _version(definition: Definition, version: int, base: int | None = None) -> Put:
    item = {"PK": definition_pk(definition.key), "SK": version_sk(version), "version": version}
    of_base = {} if base is None else {"base": base}
    return Put({**item, **of_base, **definition_items.content(definition)}, NEW)


def _replaced(known: Registered, applied: Definition, version: int, base: int, sets: Mapping[str, Any]) -> Update:
    """Makes a version current, unless the definition has changed since it was read."""
    content = {**definition_items.content(applied), "version": version, "base": None if base == version else base}
    seen = {"seen": known.version}
    if known.revision:
        return Update(
            current_key(applied.key),
            {**content, **sets},
            "#version = :seen AND #revision = :seen_revision",
            {**seen, "seen_revision": known.revision},
        )
    return Update(
        current_key(applied.key), {**content, **sets}, "#version = :seen AND attribute_not_exists(#revision)", seen
    )


def _merged(first: Sequence[Put], replaced: Update) -> list[Write]:
    """Returns the writes of a new definition with this content: one transaction can't write an item twice."""
    version, current, listed = first
    content = {name: value for name, value in replaced.sets.items() if value is not None}
    return [version, Put({**current.item, **content}, NEW), listed]


def _always_changed() -> TransactionConflict:
    return TransactionConflict(
        "other processes changed definitions all the time. Nothing was registered.", fix="Try again."
    )


def _chunks(groups: Sequence[Sequence[Write]]) -> Iterable[Sequence[Write]]:
    """Yields transactions. More definitions than one can hold are registered by several."""
    chunk: list[Write] = []
    for group in groups:
        if len(chunk) + len(group) > MOST_IN_TRANSACTION:
            yield chunk
            chunk = []
        chunk += group
    if chunk:
        yield chunk


def active_update(key: str, active: bool) -> Update:
    return Update(current_key(key), {"active": active}, EXISTS)
