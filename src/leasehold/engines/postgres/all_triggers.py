"""The triggers of all owners in Postgres, and the sync of those that code declares."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

from leasehold.engines.postgres import trigger_rows
from leasehold.engines.postgres.database import Database
from leasehold.engines.postgres.triggers import PostgresTriggers
from leasehold.errors import InvalidInput
from leasehold.model.trigger import NewTrigger, Trigger, TriggerId
from leasehold.store import DeclaredTrigger, TriggerChange


class PostgresAllTriggers:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(self, limit: int, after: TriggerId | None = None) -> Sequence[Trigger]:
        found = await self._database.fetch("administration/triggers", after=after, limit=limit)
        return [trigger_rows.shown(row) for row in found]

    async def get(self, trigger: TriggerId) -> Trigger | None:
        found = await self._database.fetch("administration/trigger", trigger=trigger)
        return trigger_rows.shown(found[0]) if found else None

    async def search(self, label: str, end: str | None, limit: int) -> Sequence[Trigger]:
        found = await self._database.fetch("administration/search_triggers", label=label, end=end, limit=limit)
        return [trigger_rows.shown(row) for row in found]

    async def sync(
        self, declared: Sequence[DeclaredTrigger], definitions: Sequence[str], *, dry_run: bool = False
    ) -> Sequence[TriggerChange]:
        """Writes what differs, each trigger by one statement: several processes may sync the same code at once."""
        by_id = {each.id: each for each in declared}
        if len(by_id) < len(declared):
            raise InvalidInput(
                "two triggers of one definition and tenant have the same label. Nothing was registered.",
                fix='Give one of them another: label="…".',
            )
        rows = await self._database.fetch(
            "administration/triggers_of_code", triggers=[*by_id], definitions=definitions
        )
        known = {trigger.id: trigger for trigger in map(trigger_rows.shown, rows)}
        changes = [await self._sync(each, known.get(each.id), dry_run=dry_run) for each in declared]
        gone = [trigger for trigger in known.values() if trigger.id not in by_id and trigger.deleted_at is None]
        return changes + [await self._remove(trigger, dry_run=dry_run) for trigger in gone]

    async def _sync(self, declared: DeclaredTrigger, known: Trigger | None, *, dry_run: bool) -> TriggerChange:
        rule, triggers = declared.rule, PostgresTriggers(self._database, declared.tenant)
        change = partial(TriggerChange, declared.id, declared.tenant, rule.label, kind=rule.kind)
        if known is None:
            created = dry_run or await triggers.declare(declared.id, rule)
            return change(1, created=created)
        replaced = {name: (None, getattr(rule, name, None)) for name in known.unreadable}
        differing, restored = {**differences(known.rule, rule), **replaced}, known.deleted_at is not None
        if not restored and not differing:
            return change(known.version)
        changed = None if dry_run else await triggers.change(known, rule, restore=restored)
        version = known.version + 1 if changed is None else changed.version
        return change(version, {} if restored else differing, created=restored)

    async def _remove(self, trigger: Trigger, *, dry_run: bool) -> TriggerChange:
        if not dry_run:
            await PostgresTriggers(self._database, trigger.tenant).delete(trigger.id)
        rule = trigger.rule
        return TriggerChange(trigger.id, trigger.tenant, rule.label, trigger.version, removed=True, kind=rule.kind)


def differences(before: NewTrigger, after: NewTrigger) -> Mapping[str, tuple[Any, Any]]:
    """Returns the fields of a rule that a change replaces, each with the old and the new value."""
    names = [each.name for each in fields(NewTrigger) if each.compare]
    pairs = {name: (getattr(before, name), getattr(after, name)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
