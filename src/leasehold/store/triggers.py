"""Triggers: the rules of a tenant or of all tenants, their decisions, and the schedules that fire."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple, Protocol

from leasehold.model.decision import Decision, DecisionKind
from leasehold.model.job import JobId, Source, TenantId
from leasehold.model.limits import Pause
from leasehold.model.trigger import ALL, AllTenants, NewTrigger, Trigger, TriggerId, TriggerKind, declared_id
from leasehold.store.events import TenantEvents
from leasehold.store.fleet import NextFire


@dataclass(frozen=True, slots=True)
class DeclaredTrigger:
    """A trigger that code declares."""

    tenant: TenantId | AllTenants
    rule: NewTrigger

    @property
    def id(self) -> TriggerId:
        return declared_id(self.tenant, self.rule.definition, self.rule.label)


@dataclass(frozen=True, slots=True)
class TriggerChange:
    """The result of a sync for one trigger of the code.

    `fields` maps each field that differed to (before, after). A trigger is `removed` when the code declares it no
    longer. If all three say nothing, the sync changed nothing.
    """

    id: TriggerId
    tenant: TenantId | AllTenants
    label: str
    version: int
    fields: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    created: bool = False
    removed: bool = False
    kind: TriggerKind = TriggerKind.SCHEDULE

    @property
    def noun(self) -> str:
        return "schedule" if self.kind is TriggerKind.SCHEDULE else "event trigger"

    @property
    def differs(self) -> bool:
        return bool(self.created or self.removed or self.fields)

    def described(self) -> str:
        """Returns one line of text for a trigger that differs."""
        name = f"{self.noun} {self.label!r} of {'all tenants' if self.tenant is ALL else self.tenant}"
        if self.removed:
            return f"{name}: removed, the code declares it no longer"
        return f"{name}: saved" if self.created else f"{name}: changed ({', '.join(self.fields)})"


class Decided(NamedTuple):
    """A decision that a scheduler has just written. `lag`: seconds from its fire time; None for an event.

    `definition` is that of the job, if the decision has made one.
    """

    trigger: TriggerId
    tenant: TenantId
    kind: DecisionKind
    job: JobId | None = None
    lag: float | None = None
    definition: str | None = None

    @property
    def source(self) -> Source:
        return Source.EVENT if self.lag is None else Source.SCHEDULE


@dataclass(frozen=True, slots=True)
class FireRound:
    """One round of a scheduler: how many jobs it made, and how long until the next fire. `more`: look again now.

    `expanded` is the number of events that were expanded, with or without jobs; `events_wait`: there are others.
    `decided` has what triggers decided in this round.
    """

    fired: int
    more: bool
    next_fire: timedelta | None
    events_wait: bool = False
    expanded: int = 0
    decided: Sequence[Decided] = field(default=(), compare=False, repr=False)


class Triggers(Protocol):
    """The triggers of one tenant, or those for all tenants. No verb reaches a trigger of another tenant.

    A deleted trigger is kept. `get` finds it if asked for deleted ones, and `change` can restore it.
    """

    async def add(self, rule: NewTrigger, created_by: str | None = None) -> Trigger:
        """Saves a trigger. A schedule fires after this moment, by the engine's clock.

        Raises UnknownTenant if strict tenants are on, and this one was never registered.
        """

    async def get(self, trigger: TriggerId, *, deleted: bool = False) -> Trigger | None:
        """Returns a trigger that is there or, with `deleted`, one that is deleted."""

    async def list(self, limit: int, after: TriggerId | None = None) -> Sequence[Trigger]:
        """Returns triggers after that one, the oldest first."""

    async def change(self, seen: Trigger, rule: NewTrigger, *, restore: bool = False) -> Trigger | None:
        """Replaces the rule of a trigger; None if it was changed or deleted since it was read.

        With `restore`, one that was read as deleted is there again. A schedule that is changed, enabled or restored
        begins at this moment. Other changes keep its place.
        """

    async def pause(self, trigger: TriggerId, pause: Pause | None) -> Trigger | None:
        """Pauses a trigger, or resumes it; None if the trigger does not exist.

        Fires that were missed meanwhile are caught up by its policy.
        """

    async def delete(self, trigger: TriggerId) -> bool:
        """Deletes a trigger; jobs that it has made stay. Returns whether there was one."""

    async def search(self, label: str, end: str | None, limit: int) -> Sequence[Trigger]:
        """Returns triggers with this label, then those whose id ends so, each the oldest first."""

    async def decisions(self, trigger: TriggerId, limit: int) -> Sequence[Decision]:
        """Returns the latest decisions of a trigger, the newest first."""

    async def latest_decisions(self, triggers: Sequence[TriggerId]) -> Sequence[Decision]:
        """Returns the latest decision of each of these triggers that has one."""


class AllTriggers(Protocol):
    """The triggers of all owners, for administrators and for the sync of code."""

    async def list(self, limit: int, after: TriggerId | None = None) -> Sequence[Trigger]:
        """Returns triggers after that one, the oldest first."""

    async def get(self, trigger: TriggerId) -> Trigger | None: ...

    async def search(self, label: str, end: str | None, limit: int) -> Sequence[Trigger]:
        """Returns triggers with this label, then those whose id ends so, each the oldest first."""

    async def sync(
        self, declared: Sequence[DeclaredTrigger], definitions: Sequence[str], *, dry_run: bool = False
    ) -> Sequence[TriggerChange]:
        """Saves the triggers that code declares, and removes those of its definitions that it declares no longer."""


class Schedules(Protocol):
    """Everything that a scheduler needs. Any number of schedulers may run."""

    async def fire_due(self) -> FireRound:
        """Fires schedules that are due, a bounded number: jobs, decisions and cursors in one transaction.

        Each fire time of a trigger makes one job for a tenant, however many schedulers call this. A schedule that
        can't be fired is recorded and goes on; it stops no other one. Then expands events that wait, a bounded
        number, each in one transaction.
        """

    async def renew_fire_times(self) -> int:
        """Computes next fires again that were computed by an older tzdata. Returns their number; seldom there is one.

        A new tzdata may put a fire before the one that is stored.
        """

    def fire_times(self) -> AsyncGenerator[NextFire, None]:
        """Yields when schedules fire, for a scheduler without a registration. Each connection begins with a look.

        Raises CannotListen where nothing would ever arrive.
        """


class TriggerStore(Protocol):
    """Triggers, their events, and the schedules that fire."""

    def triggers(self, tenant: TenantId | AllTenants) -> Triggers: ...

    def events(self, tenant: TenantId) -> TenantEvents: ...

    @property
    def all_triggers(self) -> AllTriggers: ...

    @property
    def schedules(self) -> Schedules: ...
