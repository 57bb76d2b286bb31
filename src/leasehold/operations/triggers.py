"""Everything that can be done with triggers: save, read, change, pause, delete, look before they fire."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from leasehold.errors import ChangedMeanwhile, InvalidInput, UnknownTrigger, WrongState
from leasehold.model.audit import Actor
from leasehold.model.cron import Cron
from leasehold.model.decision import Decision
from leasehold.model.definition import Registered
from leasehold.model.duration import Duration, as_duration
from leasehold.model.job import TenantId
from leasehold.model.limits import Pause
from leasehold.model.preview import Preview, preview
from leasehold.model.schedule import Every, Schedule
from leasehold.model.trigger import ALL, AllTenants, NewTrigger, Origin, Trigger, TriggerId, trigger_id
from leasehold.model.trigger_document import changed_rule
from leasehold.operations import views
from leasehold.operations.audit import audited
from leasehold.operations.catalog import Catalog
from leasehold.operations.views import format_count, visible
from leasehold.store import Administration, AllTriggers, Store, Triggers, TriggerStore

Owner = TenantId | AllTenants
"""A tenant, or ALL for triggers of all tenants."""

T = TypeVar("T")

AT_MOST = 1000
SHOWN = 10
CHANGEABLE = tuple(each.name for each in fields(NewTrigger) if each.init)
_END_OF_AN_ID = re.compile(r"[0-9a-f-]{4,35}")


def read_schedule(given: str | Schedule, zone: str | None) -> Schedule:
    """Returns the schedule of a cron text and its zone. Raises InvalidInput for a zone of an interval."""
    if isinstance(given, str):
        return Cron(given, zone or "UTC")
    if zone is not None and not (isinstance(given, Cron) and given.zone == zone):
        raise InvalidInput(
            f"zone={zone!r:.80} can't be used with {given!r:.120}: an interval has no local time, and a Cron has its "
            "own zone.",
            fix="Nothing was changed. Leave the zone out, or write the cron as text.",
        )
    return given


def change_schedule(before: Schedule | None, given: str | Schedule | None, zone: str | None) -> Schedule:
    """Returns a schedule in place of another one: text keeps the zone, and a zone alone keeps the cron."""
    cron = before if isinstance(before, Cron) else None
    changed = (cron.text if cron is not None else before) if given is None else given
    if changed is None:
        raise InvalidInput(
            f"zone={zone!r:.80} is of a schedule, and this trigger has none. Nothing was changed.",
            fix="Pass schedule=… as well.",
        )
    kept = cron.zone if cron is not None and isinstance(changed, str) else None
    return read_schedule(changed, zone or kept)


# ------------------------------------------------------------------------------------------------------------- read


async def get(store: TriggerStore, owner: Owner, trigger: TriggerId) -> Trigger:
    """Returns a trigger of this owner. Raises UnknownTrigger."""
    found = await store.triggers(owner).get(trigger)
    if found is None:
        raise UnknownTrigger(
            f"{_describe_owner(owner)} no trigger {trigger}. Nothing was changed.",
            fix="Check the id and the tenant: leasehold triggers ls",
        )
    return found


async def list_all(
    store: TriggerStore, owner: Owner | None, limit: int = AT_MOST, after: TriggerId | None = None
) -> Sequence[Trigger]:
    """Returns the triggers of an owner, or of all of them, after that one; the oldest first."""
    return await _triggers_of(store, owner).list(limit, after)


def _triggers_of(store: TriggerStore, owner: Owner | None) -> AllTriggers | Triggers:
    return store.all_triggers if owner is None else store.triggers(owner)


async def find(store: TriggerStore, text: str, owner: Owner | None) -> Trigger:
    """Finds a trigger by its id, the end of it, or its label. Changes nothing.

    Raises UnknownTrigger, or InvalidInput if several triggers fit.
    """
    whole = _whole_id(text)
    if whole is not None:
        if owner is not None:
            return await get(store, owner, whole)
        if (known := await store.all_triggers.get(whole)) is not None:
            return known
    found = await _search(store, text, owner)
    if len(found) > 1:
        listed = ", ".join(f"{each.id} ({described_owner(each.tenant)})" for each in found[:SHOWN])
        number = f"more than {SHOWN} triggers" if len(found) > SHOWN else format_count(len(found), "trigger")
        raise InvalidInput(
            f"{number} fit {text!r:.120}: {listed}.",
            fix="Nothing was changed. Pass the whole id.",
        )
    if not found:
        raise UnknownTrigger(
            f"no trigger has the id or the label {text!r:.120}, or an id that ends so. Nothing was changed.",
            fix="List them: leasehold triggers ls",
        )
    return found[0]


async def _search(store: TriggerStore, text: str, owner: Owner | None) -> Sequence[Trigger]:
    """Returns the triggers with this label, or else those whose id ends so: one more than are shown, at most."""
    if "\0" in text:
        return []
    spelled = text.strip().lower()
    end = spelled if _END_OF_AN_ID.fullmatch(spelled) else None
    found = await _triggers_of(store, owner).search(text, end, SHOWN + 1)
    return [each for each in found if each.rule.label == text] or found


async def decisions(store: TriggerStore, owner: Owner, trigger: TriggerId, limit: int) -> Sequence[Decision]:
    """Returns the latest decisions of a trigger, the newest first. Raises UnknownTrigger."""
    await get(store, owner, trigger)
    return await store.triggers(owner).decisions(trigger, limit)


async def latest_decisions(store: TriggerStore, triggers: Sequence[Trigger]) -> Mapping[TriggerId, Decision]:
    """Returns the latest decision of each of these triggers that has one."""
    owners = dict.fromkeys(each.tenant for each in triggers)
    found = await asyncio.gather(
        *(
            store.triggers(owner).latest_decisions([each.id for each in triggers if each.tenant == owner])
            for owner in owners
        )
    )
    return {decision.trigger: decision for decisions in found for decision in decisions}


async def preview_trigger(
    store: Store, owner: Owner, trigger: TriggerId, count: int, viewer_zone: str
) -> tuple[Trigger, Preview]:
    """Returns the next runs of a trigger, after its pause. Raises InvalidInput for an event trigger."""
    found = await get(store, owner, trigger)
    if found.rule.schedule is None:
        raise InvalidInput(
            f"the trigger {found.rule.label!r:.120} has no schedule, but fires on {found.rule.event}. "
            "Nothing was changed.",
            fix="Preview a trigger with a schedule.",
        )
    if why := found.unreadable.get("schedule"):
        raise WrongState(
            f"the schedule of the trigger {found.rule.label!r:.120} can't be read by this release. "
            f"Nothing was changed. {why}",
            fix="Preview it with a newer release, or give it another schedule.",
        )
    after = await store.now()
    if found.pause is not None and found.pause.until is not None:
        after = max(after, found.pause.until)
    return found, preview(found.rule.schedule, after, count, viewer_zone)


async def preview_schedule(store: Administration, schedule: Schedule, count: int, viewer_zone: str) -> Preview:
    """Returns the next runs of a schedule that is not saved, by the engine's clock."""
    return preview(schedule, await store.now(), count, viewer_zone)


# ----------------------------------------------------------------------------------------------------------- change


async def create(
    owner: Owner, rule: NewTrigger, created_by: str | None, catalog: Catalog, actor: Actor | None = None
) -> Trigger:
    """Saves a trigger. Raises UnknownDefinition, or InvalidInput for a template that can never be valid.

    With an actor, here and below, the audit log names who did it.
    """
    await check_rule(owner, rule, catalog)
    store = catalog.store

    def add() -> Awaitable[Trigger]:
        return store.triggers(owner).add(rule, created_by)

    subject = f"trigger {rule.label}"
    return await audited(store, actor, "trigger.create", subject, add, shows=views.trigger, tenant=tenant_of(owner))


async def update_by_document(
    owner: Owner,
    trigger: TriggerId,
    document: Mapping[str, Any],
    catalog: Catalog,
    *,
    version: int | None = None,
    actor: Actor | None = None,
) -> Trigger:
    """Changes the fields of a trigger that a document has. Raises as `update` does."""
    seen = await get(catalog.store, owner, trigger)
    rule = changed_rule(seen.rule, document)
    changes = {name: getattr(rule, name) for name in CHANGEABLE}
    return await update(owner, trigger, changes, catalog, version=version or seen.version, actor=actor)


async def update(
    owner: Owner,
    trigger: TriggerId,
    changes: Mapping[str, Any],
    catalog: Catalog,
    *,
    version: int | None = None,
    actor: Actor | None = None,
) -> Trigger:
    """Changes fields of a trigger, and `zone`, which is of its schedule.

    Raises WrongState for one of the code, or if it was changed meanwhile; ChangedMeanwhile if it is not in the
    `version` that the caller has seen.
    """
    return await _change(
        catalog.store, owner, trigger, "change", actor, lambda: _update(owner, trigger, changes, catalog, version)
    )


async def _update(
    owner: Owner, trigger: TriggerId, changes: Mapping[str, Any], catalog: Catalog, version: int | None
) -> Trigger:
    seen = await get(catalog.store, owner, trigger)
    _require_version(seen, version)
    _require_editable(seen, "changed")
    changes = _with_schedule(seen, changes)
    if unknown := changes.keys() - set(CHANGEABLE):
        raise InvalidInput(
            f"a trigger has no field {min(unknown)!r:.80}. Nothing was changed.",
            fix=f"Its fields are: {', '.join(CHANGEABLE)}.",
        )
    if kept := seen.unreadable.keys() - changes.keys():
        raise WrongState(
            f"{min(kept)} of the trigger {seen.rule.label!r:.120} can't be read by this release: "
            f"{seen.unreadable[min(kept)]} Nothing was changed.",
            fix="Change it with a newer release, or pass a new value for it as well.",
        )
    rule = replace(seen.rule, **changes)
    await check_rule(owner, rule, catalog)
    changed = await catalog.store.triggers(owner).change(seen, rule)
    if changed is None:
        raise WrongState(
            f"the trigger {seen.rule.label!r:.120} was changed at the same moment. Nothing was changed by this call.",
            fix="Read it again, and repeat the change.",
        )
    return changed


def _with_schedule(seen: Trigger, changes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the changes with the schedule that they make: what they leave out of it stays as it is."""
    others = {name: value for name, value in changes.items() if name not in ("schedule", "zone")}
    given, zone = changes.get("schedule"), changes.get("zone")
    if given is None and zone is None:
        return {**others, "schedule": None} if "schedule" in changes else others
    return {**others, "schedule": change_schedule(seen.rule.schedule, given, zone)}


async def pause(
    store: Store,
    owner: Owner,
    trigger: TriggerId,
    why: str,
    lasting: Duration | datetime | None,
    actor: Actor | None = None,
) -> Trigger:
    """Pauses a trigger for so long by the engine's clock, until that moment, or until it is resumed."""
    until = lasting if lasting is None or isinstance(lasting, datetime) else await store.now() + _length(lasting)
    pause = Pause(why, until)
    return await _change(store, owner, trigger, "pause", actor, lambda: _set_pause(store, owner, trigger, pause))


async def resume(store: Store, owner: Owner, trigger: TriggerId, actor: Actor | None = None) -> Trigger:
    """Ends the pause of a trigger. Fires that it has missed are caught up by its policy."""
    # The store may keep the pause, as one that is over, until the missed fires are decided.
    resumed = await _change(store, owner, trigger, "resume", actor, lambda: _set_pause(store, owner, trigger, None))
    return replace(resumed, pause=None)


async def delete(
    store: Store,
    owner: Owner,
    trigger: TriggerId,
    *,
    force: bool = False,
    version: int | None = None,
    actor: Actor | None = None,
) -> None:
    """Deletes a trigger; its jobs stay. Raises WrongState for one of the code, unless forced: its code may be gone.

    The next sync of code that still declares the trigger brings it back; so does `restore`.
    """
    found = await get(store, owner, trigger)
    _require_version(found, version)
    if not force:
        _require_editable(found, "deleted", f" If that code is gone: leasehold triggers rm {trigger} --force.")

    async def remove() -> Trigger | None:
        await store.triggers(owner).delete(trigger)
        return None

    await _change(store, owner, trigger, "delete", actor, remove)


async def _change(
    store: Store, owner: Owner, trigger: TriggerId, verb: str, actor: Actor | None, change: Callable[[], Awaitable[T]]
) -> T:
    async def read() -> dict[str, Any]:
        return views.trigger(await get(store, owner, trigger))

    def shown(changed: T) -> dict[str, Any] | None:
        return views.trigger(changed) if isinstance(changed, Trigger) else None

    return await audited(
        store,
        actor,
        f"trigger.{verb}",
        f"trigger {trigger}",
        change,
        read=read,
        shows=shown,
        tenant=tenant_of(owner),
    )


def tenant_of(owner: Owner) -> TenantId | None:
    return None if owner is ALL else TenantId(str(owner))


async def _set_pause(store: TriggerStore, owner: Owner, trigger: TriggerId, pause: Pause | None) -> Trigger:
    changed = await store.triggers(owner).pause(trigger, pause)
    return changed if changed is not None else await get(store, owner, trigger)


async def check_rule(owner: Owner, rule: NewTrigger, catalog: Catalog) -> None:
    """Raises UnknownDefinition, or InvalidInput for a rule that does not fit its owner or its definition."""
    rule.check_tenant(owner)
    rule.check_fits((await _definition(rule.definition, catalog)).definition)


async def _definition(key: str, catalog: Catalog) -> Registered:
    await catalog.version_of(key)  # registers a definition of the code that is not registered yet
    return await catalog.read_registered(key)


def _require_version(trigger: Trigger, version: int | None) -> None:
    if version is not None and trigger.version != version:
        raise ChangedMeanwhile(
            f"the trigger {trigger.rule.label!r:.120} is in version {trigger.version}, and not in {version}. "
            "Nothing was changed.",
            fix="Read it again, and repeat the change.",
        )


def _require_editable(trigger: Trigger, verb: str, or_else: str = "") -> None:
    if trigger.origin is Origin.CODE:
        raise WrongState(
            f"the trigger {trigger.rule.label!r:.120} is declared in code, and can't be {verb} here. "
            "Nothing was changed.",
            fix="Change the code, and run: leasehold definitions sync app.py. It can be paused at any time."
            + or_else,
        )


def _length(lasting: Duration) -> timedelta:
    length = as_duration(lasting)
    assert isinstance(length, timedelta)
    return length


def _whole_id(text: str) -> TriggerId | None:
    try:
        return trigger_id(str(UUID(text)))
    except ValueError:
        return None


def described_owner(owner: Owner) -> str:
    return "all tenants" if owner is ALL else visible(str(owner))


def _describe_owner(owner: Owner) -> str:
    return "there is, for all tenants," if owner is ALL else f'tenant "{owner}" has'


def in_words(schedule: Schedule | None) -> str:
    """Returns a schedule for people, with its zone."""
    if schedule is None:
        return ""
    return schedule.in_words() if isinstance(schedule, Every) else f"{schedule.in_words()} ({schedule.zone})"
