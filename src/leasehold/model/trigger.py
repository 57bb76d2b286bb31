"""Triggers: a tenant's rules that turn events and fire times into jobs.

`NewTrigger` is a rule as it is requested, and checks its values. `Trigger` is a stored one, with its state. Code
declares triggers too; those are synced like definitions and can be paused, but not edited elsewhere.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, StrEnum
from hashlib import sha256
from typing import Any, Final, NewType
from uuid import NAMESPACE_URL, UUID, uuid5

from leasehold.errors import InvalidInput
from leasehold.model.bounds import describe, problems_of_duration, problems_of_integer, problems_of_text
from leasehold.model.cron import Cron
from leasehold.model.dedupe import Dedupe, Within, canonical_key
from leasehold.model.definition import MAX_KEY, Definition
from leasehold.model.duration import as_duration
from leasehold.model.event import NO_FILTER, Filter, event_pattern, read_filter
from leasehold.model.hidden import problem_of_name
from leasehold.model.job import TenantId
from leasehold.model.limits import Pause
from leasehold.model.schedule import (
    DEFAULT_CAP,
    MAX_CAP,
    CatchUp,
    Cursor,
    Every,
    Schedule,
    problems_of_spread,
)
from leasehold.model.template import EVENT_ROOTS, SCHEDULE_ROOTS, Template, parse_template

TriggerId = NewType("TriggerId", str)

MAX_LABEL = 200
DEFAULT_WINDOW = timedelta(seconds=300)
"""The dedupe window of event triggers. Schedules have none: their key is the fire time."""
_OFF = timedelta()
_SECOND = timedelta(seconds=1)


class AllTenants(Enum):
    """The type of ALL, which is not a tenant id: a tenant may be called "all" or "*"."""

    ALL = "all"

    def __repr__(self) -> str:
        return "ALL"


ALL: Final = AllTenants.ALL
"""The tenant of a trigger that applies to every tenant, new ones included."""


class TriggerKind(StrEnum):
    EVENT = "event"
    SCHEDULE = "schedule"


class Origin(StrEnum):
    """Where a trigger is declared. One from the code is edited there, and can only be paused elsewhere."""

    CODE = "code"
    DATA = "data"


def trigger_id(text: str | UUID) -> TriggerId:
    """Returns the stored spelling of a UUID."""
    try:
        return TriggerId(str(UUID(str(text))))
    except ValueError as error:
        raise InvalidInput(
            f"{describe(text)} is not a trigger id: it is a UUID.", fix="Nothing was changed. Copy the whole id."
        ) from error


def declared_id(tenant: TenantId | AllTenants, definition: str, label: str) -> TriggerId:
    """Returns the id of a trigger that code declares: one for each tenant, definition and label, in every process."""
    scope = "all" if tenant is ALL else f"tenant:{tenant}"
    return TriggerId(str(uuid5(NAMESPACE_URL, f"leasehold:trigger:{scope}\n{definition}\n{label}")))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTrigger:
    """A trigger to save. It has no tenant: the tenant handle that saves it has one.

    Either `event` (a name, or `provider.*`) or `schedule` is given. `payload` is the template. `dedupe_window` None
    stands for the default of the kind: 300 s for events, off for schedules; "0s" turns it off. With `trailing`, the
    job runs once more at the end of the window if something was dropped in it. `spread` delays each tenant's job of
    a schedule of all tenants by a stable number of seconds below it.
    """

    label: str
    definition: str
    event: str | None = None
    filter: Filter = NO_FILTER
    schedule: Schedule | None = None
    payload: Mapping[str, Any] = field(default_factory=dict, hash=False)
    enabled: bool = True
    catch_up: CatchUp = CatchUp.LATEST
    catch_up_cap: int = DEFAULT_CAP
    spread: timedelta = _OFF
    dedupe_window: timedelta | None = None
    trailing: bool = False
    template: Template = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "spread", as_duration(self.spread))
        window = DEFAULT_WINDOW if self.event is not None else _OFF
        given = self.dedupe_window
        object.__setattr__(self, "dedupe_window", window if given is None else as_duration(given))
        if problems := list(self._problems()):
            raise InvalidInput(
                f"The trigger {describe(self.label)} can't be used: {'; '.join(problems)}.",
                fix="Nothing was changed. Correct the values.",
            )
        object.__setattr__(self, "catch_up", CatchUp(self.catch_up))
        object.__setattr__(self, "filter", read_filter(self.filter))
        if self.event is not None:
            event_pattern(self.event)
        roots = EVENT_ROOTS if self.event is not None else SCHEDULE_ROOTS
        object.__setattr__(self, "template", parse_template(self.payload, roots))
        object.__setattr__(self, "payload", self.template.source)

    @property
    def kind(self) -> TriggerKind:
        return TriggerKind.SCHEDULE if self.event is None else TriggerKind.EVENT

    @property
    def window(self) -> timedelta:
        """The dedupe window; zero: off."""
        return self.dedupe_window or _OFF

    def check_fits(self, definition: Definition) -> None:
        """Raises InvalidInput for a template that can never give a payload that the definition accepts.

        Templates and events are stored in plain, so a template can't fill a secret field.
        """
        if secret := sorted(definition.secret_fields & self.payload.keys()):
            raise InvalidInput(
                f"The trigger {self.label!r:.120} can't be used: payload.{secret[0]} is a secret field of "
                f"{definition.key}, and triggers and events are stored in plain.",
                fix="Nothing was changed. Leave the field out, and pass the name of a secret that the handler reads.",
            )
        self.template.check_fits(definition)

    def check_tenant(self, tenant: TenantId | AllTenants) -> None:
        """Raises InvalidInput for a spread without tenants to spread over."""
        if self.spread and tenant is not ALL:
            raise InvalidInput(
                f"The trigger {self.label!r:.120} can't be used: spread={self.spread} is for a schedule of all "
                f"tenants, and this one is of {tenant!r:.120}.",
                fix="Nothing was changed. Leave out spread, or use tenant=ALL.",
            )

    def _problems(self) -> Iterator[str]:
        yield from problems_of_text("label", self.label, MAX_LABEL, least=1)
        if isinstance(self.label, str) and (hidden := problem_of_name(self.label)):
            yield f"label: {hidden}"
        yield from problems_of_text("definition", self.definition, MAX_KEY, least=1)
        for name in ("enabled", "trailing"):
            if not isinstance(getattr(self, name), bool):
                yield f"{name}={describe(getattr(self, name))} is neither true nor false"
        if self.catch_up not in list(CatchUp):
            yield f"catch_up={describe(self.catch_up)} is none of {', '.join(CatchUp)}"
        yield from problems_of_integer("catch_up_cap", self.catch_up_cap, 1, MAX_CAP)
        yield from self._problems_of_kind()
        yield from self._problems_of_window()

    def _problems_of_kind(self) -> Iterator[str]:
        if (self.event is None) == (self.schedule is None):
            both = "both an event and a schedule" if self.event is not None else "neither an event nor a schedule"
            yield f"it has {both}, and needs one of them"
        if self.schedule is not None and not isinstance(self.schedule, Cron | Every):
            yield f'schedule={describe(self.schedule)} is neither a Cron nor every("15m")'
        problems = list(problems_of_spread(self.spread))
        yield from problems
        if not problems and self.spread and (self.schedule is None or self.spread % _SECOND):
            yield f"spread={self.spread} is for schedules, in whole seconds"
        if self.event is None and self.filter not in ({}, NO_FILTER):
            yield "filter is for events, and this trigger has a schedule"

    def _problems_of_window(self) -> Iterator[str]:
        problems = list(problems_of_duration("dedupe_window", self.dedupe_window))
        yield from problems
        if problems:
            return
        if self.window % _SECOND:
            yield f"dedupe_window={self.window} is not whole seconds"
        if self.event is None and self.window:
            yield f"dedupe_window={self.window} is for events: a schedule fires each fire time once"
        if self.trailing is True and not (self.event is not None and self.window):
            yield "trailing needs an event and a dedupe_window, at whose end the job runs once more"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """A stored trigger. `version` goes up with each change of `rule`; a pause is not one.

    `cursor`, `last_at` and `next_at` belong to schedules: how far it has come, the last fire that made jobs, and when
    a scheduler looks at it next: at its next fire, or at the end of its pause. A change of `rule.schedule` starts a
    new cursor; other changes keep it. `pause` may be over, until the next fire removes it. `unreadable` maps fields
    of `rule` that this release can't read, for example because a newer one wrote them, to the reason; other values
    stand for them. Normally it is empty.
    """

    id: TriggerId
    tenant: TenantId | AllTenants
    rule: NewTrigger
    origin: Origin
    version: int
    created_by: str | None
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None = None
    pause: Pause | None = None
    cursor: Cursor | None = None
    last_at: datetime | None = None
    next_at: datetime | None = None
    unreadable: Mapping[str, str] = field(default_factory=dict, hash=False)

    def applies_to(self, tenant: TenantId) -> bool:
        return self.tenant is ALL or self.tenant == tenant

    def paused_at(self, moment: datetime) -> bool:
        """Returns whether the trigger is paused at this moment; a pause without an end lasts until it is resumed."""
        return self.pause is not None and (self.pause.until is None or moment < self.pause.until)


def dedupe_key(trigger: TriggerId, payload: Mapping[str, Any]) -> str:
    """Returns the key of a trigger and a rendered payload. It has a hash: a payload may hold secrets."""
    canonical = canonical_key("trigger", trigger, payload)
    return f"trigger:{trigger}:{sha256(canonical.encode()).hexdigest()}"


def dedupe_of(trigger: Trigger, payload: Mapping[str, Any]) -> Dedupe | None:
    """Returns the dedupe of a job of this trigger, counted from its enqueue; None if it is off."""
    if not trigger.rule.window:
        return None
    return Dedupe(dedupe_key(trigger.id, payload), Within(trigger.rule.window))
