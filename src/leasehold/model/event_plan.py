"""Plans an event: which triggers make a job of it, with which payload, and what is recorded of the others.

An engine finds the triggers, asks for the plan, and writes it together with the event. Whether a dedupe key is held
shows only then, so `fired` in a plan may be recorded as `deduped`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from leasehold.model.decision import (
    Decision,
    DecisionKind,
    Evaluation,
    Match,
    NoMatch,
    Problem,
    Reason,
    decision_without_job,
    evaluate,
)
from leasehold.model.definition import Registered
from leasehold.model.event import Event, EventId
from leasehold.model.job import JobId, NewJob, Source, TenantId
from leasehold.model.trigger import Trigger, TriggerId


@dataclass(frozen=True, slots=True)
class Candidate:
    """A live trigger whose pattern selects the event, with its definition. A trigger that can't be read is a text."""

    id: TriggerId
    trigger: Trigger | str
    definition: Registered | None


@dataclass(frozen=True, slots=True)
class EventDecision:
    """A decision about an event, and the job that it makes. With `trailing`, a job that is dropped runs later."""

    decision: Decision
    job: NewJob | None = None
    trailing: bool = False


@dataclass(frozen=True, slots=True)
class Emitted:
    """The answer to an emit.

    `expanded`: all triggers have decided about the event, in the transaction that wrote it. Otherwise a worker lets
    them do so after the commit. `created`: false if the event was there, because the call was repeated with its id;
    then decisions are those of the first call by triggers that still match, and jobs those that still could be made.
    `decisions` has one entry for each trigger that matched, and `definitions` the definition of each job.
    """

    id: EventId
    tenant: TenantId
    name: str
    expanded: bool
    created: bool = True
    decisions: tuple[Decision, ...] = ()
    definitions: Mapping[JobId, str] = field(default_factory=dict, hash=False)

    @property
    def jobs(self) -> tuple[JobId, ...]:
        """The jobs that the event has made."""
        return tuple(self.definitions)


def emitted(
    event: Event,
    plan: Sequence[EventDecision],
    decisions: Sequence[Decision],
    *,
    created: bool = True,
    expanded: bool = True,
) -> Emitted:
    """Returns the answer for a plan that was written with these decisions."""
    wanted = {each.decision.trigger: each.job.definition for each in plan if each.job is not None}
    made = {
        each.job: wanted[each.trigger]
        for each in decisions
        if each.job is not None and each.kind is DecisionKind.FIRED and each.trigger in wanted
    }
    return Emitted(event.id, event.tenant, event.name, expanded, created, tuple(decisions), made)


def plan_event(event: Event, candidates: Sequence[Candidate]) -> tuple[EventDecision, ...]:
    """Plans the jobs of an event. A trigger whose filter does not fit is left out."""
    planned = (_plan(event, candidate) for candidate in candidates)
    return tuple(each for each in planned if each is not None)


def plan_of_refused(event: Event, candidates: Sequence[Candidate], why: str) -> tuple[EventDecision, ...]:
    """Plans no jobs for an event that the database can't expand: each trigger records why."""
    problem = Problem(Reason.REFUSED, why)
    return tuple(EventDecision(decision_without_job(each.id, event.tenant, problem, event.id)) for each in candidates)


def source_ref(trigger: TriggerId, event: EventId) -> str:
    """Returns where the job of an event comes from: its trigger and the event."""
    return f"{trigger}@{event}"


def _plan(event: Event, candidate: Candidate) -> EventDecision | None:
    trigger, definition = candidate.trigger, candidate.definition
    found: Evaluation
    if isinstance(trigger, str):
        found = Problem(Reason.UNREADABLE, trigger)
    else:
        found = evaluate(trigger, event, definition)
        if isinstance(found, Match):
            return _job(event, trigger, definition, found)
    if isinstance(found, NoMatch):
        return None
    assert not isinstance(found, Match)
    return EventDecision(decision_without_job(candidate.id, event.tenant, found, event.id))


def _job(event: Event, trigger: Trigger, definition: Registered | None, match: Match) -> EventDecision:
    assert definition is not None
    return EventDecision(
        Decision(trigger=trigger.id, tenant=event.tenant, kind=DecisionKind.FIRED, event=event.id),
        NewJob(
            definition=trigger.rule.definition,
            version=definition.version,
            payload=match.payload,
            dedupe=match.dedupe,
            source=Source.EVENT,
            source_ref=source_ref(trigger.id, event.id),
            correlation_id=event.correlation_id,
            created_by=trigger.created_by,
            trace_context=event.trace_context,
        ),
        trigger.rule.trailing,
    )
