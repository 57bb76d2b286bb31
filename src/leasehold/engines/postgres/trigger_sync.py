"""Saves the triggers that code declares, as definitions are: new, changed, or declared no longer."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

from leasehold.engines.postgres import trigger_rows
from leasehold.engines.postgres.database import Database
from leasehold.engines.postgres.triggers import PostgresTriggers
from leasehold.errors import InvalidInput
from leasehold.model.trigger import NewTrigger, Trigger
from leasehold.store import DeclaredTrigger, TriggerChange


async def sync_triggers(
    database: Database, declared: Sequence[DeclaredTrigger], definitions: Sequence[str], *, dry_run: bool
) -> list[TriggerChange]:
    """Writes what differs, each trigger by one statement: any number of processes may sync the same code at once."""
    by_id = {each.id: each for each in declared}
    if len(by_id) < len(declared):
        raise InvalidInput(
            "two triggers of one definition and tenant have the same label. Nothing was registered.",
            fix='Give one of them another: label="…".',
        )
    rows = await database.fetch("administration/triggers_of_code", triggers=list(by_id), definitions=definitions)
    known = {trigger.id: trigger for trigger in map(trigger_rows.shown, rows)}
    changes = [await _sync(database, each, known.get(each.id), dry_run=dry_run) for each in declared]
    gone = [trigger for trigger in known.values() if trigger.id not in by_id and trigger.deleted_at is None]
    return changes + [await _remove(database, trigger, dry_run=dry_run) for trigger in gone]


async def _sync(
    database: Database, declared: DeclaredTrigger, known: Trigger | None, *, dry_run: bool
) -> TriggerChange:
    rule, triggers = declared.rule, PostgresTriggers(database, declared.tenant)
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


async def _remove(database: Database, trigger: Trigger, *, dry_run: bool) -> TriggerChange:
    if not dry_run:
        await PostgresTriggers(database, trigger.tenant).delete(trigger.id)
    rule = trigger.rule
    return TriggerChange(trigger.id, trigger.tenant, rule.label, trigger.version, removed=True, kind=rule.kind)


def differences(before: NewTrigger, after: NewTrigger) -> Mapping[str, tuple[Any, Any]]:
    """Returns the fields of a rule that a change replaces, each with the old and the new value."""
    names = [each.name for each in fields(NewTrigger) if each.compare]
    pairs = {name: (getattr(before, name), getattr(after, name)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
