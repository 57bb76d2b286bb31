"""Decisions of triggers: whether an event or a fire time becomes a job, and why not.

`evaluate` decides for an event and `evaluate_fire` for a fire time; the real emit, the scheduler and dry runs use
them. Both look only at their arguments. The store then finds out whether the dedupe key is held, and records a
`Decision`. An event that a trigger does not match is not recorded.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from leasehold.errors import InvalidInput, PayloadInvalid
from leasehold.model import payload as payloads
from leasehold.model.bounds import MAX_TEXT
from leasehold.model.dedupe import Dedupe
from leasehold.model.definition import Registered
from leasehold.model.event import Event, EventId, matches
from leasehold.model.job import JobId, TenantId
from leasehold.model.limits import Pause
from leasehold.model.schedule import fire_before
from leasehold.model.template import TemplateProblem, moment_text, values_of_event, values_of_fire
from leasehold.model.trigger import Trigger, TriggerId, TriggerKind, dedupe_of

# All problems that a payload may have, before they are redacted.
LONGEST_WHY = 10_000


class Reason(StrEnum):
    """Why no job was made."""

    # The event does not match.
    TENANT = "tenant"
    NAME = "name"
    FILTER = "filter"
    # Skipped.
    DELETED = "deleted"
    DISABLED = "disabled"
    PAUSED = "paused"
    INACTIVE_DEFINITION = "inactive_definition"
    # Missed.
    DOWN = "down"
    # Errors.
    UNKNOWN_DEFINITION = "unknown_definition"
    TEMPLATE = "template"
    INVALID_PAYLOAD = "invalid_payload"
    UNKNOWN_TENANT = "unknown_tenant"
    REFUSED = "refused"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Match:
    """The trigger makes a job with this payload, unless another job holds the dedupe key."""

    payload: Mapping[str, Any] = field(hash=False)
    dedupe: Dedupe | None


@dataclass(frozen=True, slots=True)
class NoMatch:
    """The event is not meant for the trigger."""

    reason: Reason
    why: str


@dataclass(frozen=True, slots=True)
class Skip:
    """The trigger matches and is switched off, or its definition is."""

    reason: Reason
    why: str


@dataclass(frozen=True, slots=True)
class Problem:
    """The trigger matches, and no valid payload can be made. `payload` is the invalid one, if it was rendered."""

    reason: Reason
    why: str
    payload: Mapping[str, Any] | None = field(default=None, hash=False)


Evaluation = Match | NoMatch | Skip | Problem


def evaluate(trigger: Trigger, event: Event, definition: Registered | None) -> Evaluation:
    """Decides whether this event makes a job. Times are compared with the moment of the event."""
    rule = trigger.rule
    if not trigger.applies_to(event.tenant):
        return NoMatch(Reason.TENANT, f"the trigger is of tenant {trigger.tenant}, the event of {event.tenant}")
    if rule.kind is TriggerKind.SCHEDULE:
        return NoMatch(Reason.NAME, "the trigger has a schedule")
    if rule.event is None or not matches(rule.event, event.name):
        return NoMatch(Reason.NAME, f"{event.name} is not {rule.event}")
    if why := rule.filter.why_not(event.data):
        return NoMatch(Reason.FILTER, why)
    return _skip_of(trigger, event.at, definition) or _rendered(trigger, values_of_event(event), definition)


def evaluate_fire(trigger: Trigger, tenant: TenantId, fire_at: datetime, definition: Registered | None) -> Evaluation:
    """Decides whether this fire time makes a job of this tenant. A pause counts if it covers the fire time."""
    assert trigger.rule.schedule is not None
    values = values_of_fire(fire_at, fire_before(trigger.rule.schedule, fire_at), tenant)
    return _skip_of(trigger, fire_at, definition) or _rendered(trigger, values, definition)


def _skip_of(trigger: Trigger, moment: datetime, definition: Registered | None) -> Skip | None:
    if trigger.deleted_at is not None:
        return Skip(Reason.DELETED, f"deleted at {moment_text(trigger.deleted_at)}")
    if not trigger.rule.enabled:
        return Skip(Reason.DISABLED, "the trigger is disabled")
    if trigger.pause is not None and trigger.paused_at(moment):
        until = moment_text(trigger.pause.until) if trigger.pause.until else "it is resumed"
        return Skip(Reason.PAUSED, f"paused until {until}: {trigger.pause.why}")
    if definition is not None and not definition.active:
        return Skip(Reason.INACTIVE_DEFINITION, f"the definition {trigger.rule.definition} accepts no new jobs")
    return None


def _rendered(trigger: Trigger, values: Mapping[str, Any], definition: Registered | None) -> Match | Problem:
    if definition is None:
        return Problem(Reason.UNKNOWN_DEFINITION, f'no definition has the key "{trigger.rule.definition}"')
    payload = trigger.rule.template.render(values)
    if isinstance(payload, TemplateProblem):
        return Problem(Reason.TEMPLATE, payload.why)
    if secret := sorted(definition.definition.secret_fields & payload.keys()):
        why = f"payload.{secret[0]} is a secret field, which a trigger can't fill"
        return Problem(Reason.INVALID_PAYLOAD, why, {name: payload[name] for name in payload.keys() - set(secret)})
    try:
        payloads.encode(payload)
        definition.definition.check(payload)
    except PayloadInvalid as error:
        return Problem(Reason.INVALID_PAYLOAD, error.happened, payload)
    return Match(payload, dedupe_of(trigger, payload))


class DecisionKind(StrEnum):
    """A trigger's decision about an event or a fire time: a job was made, or why none was."""

    FIRED = "fired"
    DEDUPED = "deduped"
    SKIPPED = "skipped"
    MISSED = "missed"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A recorded decision of a trigger.

    `job` is the job that was made, or the one that held the dedupe key. `event` or `fire_at` is the cause. `count` is
    the number of missed fires, of which `fire_at` is the latest. The database's clock sets `at`.
    """

    trigger: TriggerId
    tenant: TenantId
    kind: DecisionKind
    event: EventId | None = None
    fire_at: datetime | None = None
    job: JobId | None = None
    reason: Reason | None = None
    why: str = ""
    count: int = 1
    at: datetime | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "why", payloads.make_storable(self.why, LONGEST_WHY))
        if (self.event is None) == (self.fire_at is None):
            raise InvalidInput(
                f"A decision of the trigger {self.trigger} has one cause, an event or a fire time.",
                fix="Nothing was changed. Pass one of them.",
            )

    def recorded_why(self, redact: Callable[[str], str]) -> str:
        """Returns why, as it is stored: redacted, and then shortened, so that no part of a secret stays."""
        return payloads.make_storable(redact(self.why), MAX_TEXT)

    def as_row(self) -> dict[str, Any]:
        """Returns the columns of the decision; `at` is left to the database."""
        return {
            "trigger": self.trigger,
            "tenant": self.tenant,
            "kind": self.kind.value,
            "event": self.event,
            "fire_at": self.fire_at,
            "job": self.job,
            "reason": None if self.reason is None else self.reason.value,
            "why": self.why,
            "count": self.count,
        }


def decision_from_row(row: Mapping[str, Any]) -> Decision:
    """Returns a stored decision. A reason of a newer release is shown in `why`."""
    known = row["reason"] in set(Reason)
    return Decision(
        trigger=TriggerId(str(row["trigger"])),
        tenant=TenantId(row["tenant"]),
        kind=DecisionKind(row["kind"]),
        event=None if row["event"] is None else EventId(str(row["event"])),
        fire_at=row["fire_at"],
        job=None if row["job"] is None else JobId(str(row["job"])),
        reason=Reason(row["reason"]) if known else None,
        why=row["why"] if known or row["reason"] is None else f"{row['reason']}: {row['why']}",
        count=row["count"],
        at=row["at"],
    )


def decision_without_job(
    trigger: TriggerId, tenant: TenantId, found: Skip | Problem, cause: EventId | datetime
) -> Decision:
    """Returns the record of an evaluation that made no job."""
    return Decision(
        trigger=trigger,
        tenant=tenant,
        kind=DecisionKind.SKIPPED if isinstance(found, Skip) else DecisionKind.ERROR,
        event=None if isinstance(cause, datetime) else cause,
        fire_at=cause if isinstance(cause, datetime) else None,
        reason=found.reason,
        why=found.why,
    )


def decision_missed(
    trigger: TriggerId, tenant: TenantId, fire_at: datetime, count: int, more: bool, pause: Pause | None = None
) -> Decision:
    """Returns the record of fires that were missed; `fire_at` is the latest of them.

    `pause` is one that is over. A fire after its end was missed because no scheduler ran.
    """
    number = f"more than {count:,}" if more else f"{count:,}"
    fires = "1 fire was" if count == 1 and not more else f"{number} fires were"
    reason, why = Reason.DOWN, "no scheduler ran"
    if pause is not None and pause.until is not None:
        covered = fire_at < pause.until
        reason = Reason.PAUSED if covered else Reason.DOWN
        why = "the trigger was paused" if covered else "no scheduler ran, or the trigger was paused"
    return Decision(
        trigger=trigger,
        tenant=tenant,
        kind=DecisionKind.MISSED,
        fire_at=fire_at,
        reason=reason,
        why=f"{fires} missed while {why}",
        count=count,
    )
