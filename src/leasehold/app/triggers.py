"""The triggers of a tenant handle, or of all tenants: each verb blocking and awaited."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from leasehold.app.app_store import AppStore
from leasehold.app.definition import TypedDefinition
from leasehold.errors import InvalidInput, NoTenant, UnusableHandler
from leasehold.model.audit import Actor
from leasehold.model.bounds import describe
from leasehold.model.decision import Decision
from leasehold.model.duration import Duration, as_duration
from leasehold.model.event import NewEvent
from leasehold.model.job import TenantId, tenant_id
from leasehold.model.preview import Preview
from leasehold.model.schedule import DEFAULT_CAP, CatchUp, Schedule
from leasehold.model.trigger import ALL, AllTenants, NewTrigger, Trigger, trigger_id
from leasehold.operations import deleted_triggers, events
from leasehold.operations import triggers as operations
from leasehold.operations.events import TriggerTest
from leasehold.operations.triggers import Owner, read_schedule
from leasehold.store import DeclaredTrigger


@dataclass(frozen=True, slots=True)
class TenantTriggers:
    """The triggers of one tenant, or those for all tenants. Each verb comes twice: blocking, and with an `a` first.

    A trigger that code declares, by `@app.schedule` or `@app.on`, can be paused and resumed here, and not changed. It
    is deleted by force only.
    """

    owner: Owner
    _store: AppStore = field(repr=False)
    _actor: Actor | None = field(default=None, repr=False)
    """The administrator who changes triggers here, for the audit log; None: the app itself, which is not noted."""

    def create(self, definition: TypedDefinition[..., Any] | str, **options: Any) -> Trigger:
        """Saves a trigger that enqueues jobs of this definition. Options are those of `new_trigger`.

        A schedule fires after this moment. Raises InvalidInput, with the reason, for one that could never work.
        """
        rule, by = _rule_and_author(definition, options)
        return self._store.call(partial(operations.create, self.owner, rule, by, actor=self._actor), "acreate")

    async def acreate(self, definition: TypedDefinition[..., Any] | str, **options: Any) -> Trigger:
        return await self.asave(*_rule_and_author(definition, options))

    async def asave(self, rule: NewTrigger, created_by: str | None = None) -> Trigger:
        """Saves a rule that `new_trigger` made."""
        return await self._store.acall(partial(operations.create, self.owner, rule, created_by, actor=self._actor))

    def list(self, limit: int = 1000, after: str | UUID | None = None) -> Sequence[Trigger]:
        """Returns the triggers, the oldest first, at most so many; with `after`, those after that id."""
        last = None if after is None else trigger_id(after)
        return self._store.call(lambda opened: operations.list_all(opened.store, self.owner, limit, last), "alist")

    async def alist(self, limit: int = 1000, after: str | UUID | None = None) -> Sequence[Trigger]:
        last = None if after is None else trigger_id(after)
        return await self._store.acall(lambda opened: operations.list_all(opened.store, self.owner, limit, last))

    def get(self, trigger: str | UUID) -> Trigger:
        """Returns the trigger as it stands. Raises UnknownTrigger."""
        known = trigger_id(trigger)
        return self._store.call(lambda opened: operations.get(opened.store, self.owner, known), "aget")

    async def aget(self, trigger: str | UUID) -> Trigger:
        known = trigger_id(trigger)
        return await self._store.acall(lambda opened: operations.get(opened.store, self.owner, known))

    def update(self, trigger: str | UUID, **changes: Any) -> Trigger:
        """Changes some of its options. A schedule that is changed or enabled begins now; others keep their place.

        A cron that is given as text keeps its zone, unless `zone` is given; `zone` alone keeps the cron.
        Raises WrongState for a trigger that code declares, or that was changed at the same moment.
        """
        known, changed = trigger_id(trigger), read_changes(changes)
        return self._store.call(partial(operations.update, self.owner, known, changed, actor=self._actor), "aupdate")

    async def aupdate(self, trigger: str | UUID, **changes: Any) -> Trigger:
        known, changed = trigger_id(trigger), read_changes(changes)
        return await self._store.acall(partial(operations.update, self.owner, known, changed, actor=self._actor))

    def pause(self, trigger: str | UUID, why: str, until: datetime | Duration | None = None) -> Trigger:
        """Pauses it: until that moment, for so long (`"2h"`), or until it is resumed.

        Fires that are missed meanwhile are caught up by its policy.
        """
        known = trigger_id(trigger)
        return self._store.call(
            lambda opened: operations.pause(opened.store, self.owner, known, why, until, self._actor), "apause"
        )

    async def apause(self, trigger: str | UUID, why: str, until: datetime | Duration | None = None) -> Trigger:
        known = trigger_id(trigger)
        return await self._store.acall(
            lambda opened: operations.pause(opened.store, self.owner, known, why, until, self._actor)
        )

    def resume(self, trigger: str | UUID) -> Trigger:
        known = trigger_id(trigger)
        return self._store.call(
            lambda opened: operations.resume(opened.store, self.owner, known, self._actor), "aresume"
        )

    async def aresume(self, trigger: str | UUID) -> Trigger:
        known = trigger_id(trigger)
        return await self._store.acall(lambda opened: operations.resume(opened.store, self.owner, known, self._actor))

    def delete(self, trigger: str | UUID, *, force: bool = False) -> None:
        """Deletes it; jobs that it has made stay. Raises WrongState for a trigger that code declares.

        With `force`, such a trigger is deleted too. The next sync of code that still declares it brings it back.
        """
        known = trigger_id(trigger)
        self._store.call(
            lambda opened: operations.delete(opened.store, self.owner, known, force=force, actor=self._actor),
            "adelete",
        )

    async def adelete(self, trigger: str | UUID, *, force: bool = False) -> None:
        known = trigger_id(trigger)
        await self._store.acall(
            lambda opened: operations.delete(opened.store, self.owner, known, force=force, actor=self._actor)
        )

    def restore(self, trigger: str | UUID) -> Trigger:
        """Brings a deleted trigger back as it was. A schedule begins at this moment, and catches up nothing."""
        known = trigger_id(trigger)
        return self._store.call(partial(deleted_triggers.restore, self.owner, known, actor=self._actor), "arestore")

    async def arestore(self, trigger: str | UUID) -> Trigger:
        known = trigger_id(trigger)
        return await self._store.acall(partial(deleted_triggers.restore, self.owner, known, actor=self._actor))

    def decisions(self, trigger: str | UUID, limit: int = 100) -> Sequence[Decision]:
        """Returns its latest decisions, the newest first: fired, skipped, missed, error, each with its reason."""
        known = trigger_id(trigger)
        return self._store.call(
            lambda opened: operations.decisions(opened.store, self.owner, known, limit), "adecisions"
        )

    async def adecisions(self, trigger: str | UUID, limit: int = 100) -> Sequence[Decision]:
        known = trigger_id(trigger)
        return await self._store.acall(lambda opened: operations.decisions(opened.store, self.owner, known, limit))

    def preview(self, trigger: str | UUID, count: int = 5, viewer_zone: str = "UTC") -> Preview:
        """Returns its next runs, and those around the next clock change. Nothing is enqueued."""
        known = trigger_id(trigger)
        _, shown = self._store.call(
            lambda opened: operations.preview_trigger(opened.store, self.owner, known, count, viewer_zone), "apreview"
        )
        return shown

    async def apreview(self, trigger: str | UUID, count: int = 5, viewer_zone: str = "UTC") -> Preview:
        known = trigger_id(trigger)
        _, shown = await self._store.acall(
            lambda opened: operations.preview_trigger(opened.store, self.owner, known, count, viewer_zone)
        )
        return shown

    def test(self, event_name: str, data: Mapping[str, Any] | None = None) -> Sequence[TriggerTest]:
        """Returns what each event trigger, those of all tenants included, would do with this event.

        Nothing is written: neither the event, nor jobs, nor decisions.
        """
        event = NewEvent(event_name, {} if data is None else data)
        return self._store.call(partial(events.try_out, self._only_tenant(), event), "atest")

    async def atest(self, event_name: str, data: Mapping[str, Any] | None = None) -> Sequence[TriggerTest]:
        event = NewEvent(event_name, {} if data is None else data)
        return await self._store.acall(partial(events.try_out, self._only_tenant(), event))

    def _only_tenant(self) -> TenantId:
        if self.owner is ALL:
            raise NoTenant(
                "an event belongs to a tenant, and these triggers to all of them. Nothing was tested.",
                fix='Write app.tenant("acme").triggers.test(…): triggers of all tenants are tested, too.',
            )
        return self.owner


def new_trigger(
    definition: TypedDefinition[..., Any] | str,
    *,
    schedule: str | Schedule | None = None,
    zone: str | None = None,
    event: str | None = None,
    filter: Mapping[str, Any] | None = None,  # noqa: A002
    payload: Mapping[str, Any] | None = None,
    label: str | None = None,
    enabled: bool = True,
    catch_up: CatchUp | str = CatchUp.LATEST,
    catch_up_cap: int = DEFAULT_CAP,
    spread: Duration = 0,
    dedupe_window: Duration | None = None,
    trailing: bool = False,
) -> NewTrigger:
    """Makes a trigger of its options.

    schedule       a cron such as "0 2 * * *", "@daily", or every("15m")
    zone           of a cron: an IANA name; default "UTC"
    event, filter  the name of an event, or "provider.*", and comparisons of its data
    payload        the payload, a template: "{{schedule.fire_at}}", "{{schedule.previous}}", "{{tenant}}"; for
                   events "{{event.folder.path}}", "{{event_name}}", "{{event_id}}", "{{event_at}}", "{{tenant}}"
                   previous is the fire time before by the calendar, and never null
    label          for people; default the key of the definition
    catch_up       which missed fires run: "skip", "latest" (default), or "all", the last `catch_up_cap` of them
    spread         for all tenants: their jobs come due within this time after the fire, each always at its own second
    dedupe_window  an event whose payload is equal to one of the same trigger makes no job so long; default 5 minutes,
                   "0s" turns it off
    trailing       True: if events were dropped in the window, one more job runs at its end
    """
    key = definition.key if isinstance(definition, TypedDefinition) else definition
    if not isinstance(key, str):
        raise InvalidInput(
            f"{describe(definition)} is not a definition. Nothing was changed.",
            fix="Pass a function that @app.job made one, or the key of a definition.",
        )
    return NewTrigger(
        label=key if label is None else label,
        definition=key,
        schedule=None if schedule is None else read_schedule(schedule, zone),
        event=event,
        payload={} if payload is None else payload,
        enabled=enabled,
        catch_up=CatchUp(catch_up) if catch_up in set(CatchUp) else catch_up,  # type: ignore[arg-type]
        catch_up_cap=catch_up_cap,
        spread=as_duration(spread),
        dedupe_window=as_duration(dedupe_window),
        trailing=trailing,
        **({} if filter is None else {"filter": filter}),  # type: ignore[arg-type]
    )


def read_changes(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the changes of these options, by the names of the model."""
    read = dict(changes)
    if isinstance(definition := read.get("definition"), TypedDefinition):
        read["definition"] = definition.key
    return read


def _rule_and_author(
    definition: TypedDefinition[..., Any] | str, options: Mapping[str, Any]
) -> tuple[NewTrigger, str | None]:
    given = dict(options)
    author: str | None = given.pop("created_by", None)
    return new_trigger(definition, **given), author


def declared_trigger(verb: str, owner: Owner, options: Mapping[str, Any], definition: object) -> DeclaredTrigger:
    """Returns the trigger that a decorator declares. Raises an error, with the reason, for one that never works."""
    if not isinstance(definition, TypedDefinition):
        raise UnusableHandler(
            f"{definition!r:.120} is not a job yet. Nothing was registered.",
            fix=f"Write @app.{verb}(…) above @app.job.",
        )
    if verb == "on" and options["label"] is None:
        options = {**options, "label": f"{definition.key} on {options['event']}"}
    rule = new_trigger(definition, **options)
    rule.check_tenant(owner)
    rule.check_fits(definition.definition)
    return DeclaredTrigger(owner, rule)


def read_owner(tenant: str | UUID | AllTenants) -> Owner:
    return tenant if isinstance(tenant, AllTenants) else tenant_id(tenant)
