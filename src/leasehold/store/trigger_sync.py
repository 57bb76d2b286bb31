"""The sync of triggers that code declares, the same on each engine: which are new, changed, restored or gone."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any, Protocol

from leasehold.errors import InvalidInput
from leasehold.model.job import TenantId
from leasehold.model.trigger import AllTenants, NewTrigger, Trigger, TriggerId
from leasehold.store.triggers import DeclaredTrigger, TriggerChange


class DeclarableTriggers(Protocol):
    """The triggers of one owner, among them those that code declares."""

    async def declare(self, trigger: TriggerId, rule: NewTrigger) -> bool:
        """Returns whether it was created: another process may have been first."""

    async def change(self, seen: Trigger, rule: NewTrigger, *, restore: bool = False) -> Trigger | None: ...

    async def delete(self, trigger: TriggerId) -> bool: ...


class TriggerSync(ABC):
    @abstractmethod
    def _of(self, tenant: TenantId | AllTenants) -> DeclarableTriggers: ...

    @abstractmethod
    async def _declared_before(
        self, declared: Sequence[DeclaredTrigger], definitions: Sequence[str]
    ) -> Iterable[Trigger]:
        """Returns the stored ones of these triggers, and all others that code declared for these definitions."""

    async def sync(
        self, declared: Sequence[DeclaredTrigger], definitions: Sequence[str], *, dry_run: bool = False
    ) -> Sequence[TriggerChange]:
        """Writes what differs, each trigger by one write: several processes may sync the same code at once."""
        by_id = {each.id: each for each in declared}
        if len(by_id) < len(declared):
            raise InvalidInput(
                "two triggers of one definition and tenant have the same label. Nothing was registered.",
                fix='Give one of them another: label="…".',
            )
        known = {trigger.id: trigger for trigger in await self._declared_before(declared, definitions)}
        changes = [await self._sync(each, known.get(each.id), dry_run=dry_run) for each in declared]
        gone = [trigger for trigger in known.values() if trigger.id not in by_id and trigger.deleted_at is None]
        return changes + [await self._remove(trigger, dry_run=dry_run) for trigger in gone]

    async def _sync(self, declared: DeclaredTrigger, known: Trigger | None, *, dry_run: bool) -> TriggerChange:
        rule, triggers = declared.rule, self._of(declared.tenant)
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
            await self._of(trigger.tenant).delete(trigger.id)
        rule = trigger.rule
        return TriggerChange(trigger.id, trigger.tenant, rule.label, trigger.version, removed=True, kind=rule.kind)


def differences(before: NewTrigger, after: NewTrigger) -> Mapping[str, tuple[Any, Any]]:
    """Returns the fields of a rule that a change replaces, each with the old and the new value."""
    names = [each.name for each in fields(NewTrigger) if each.compare]
    pairs = {name: (getattr(before, name), getattr(after, name)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
