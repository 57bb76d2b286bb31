"""Plans the fires of a schedule that is due: which jobs are made, what is recorded, and how the schedule goes on.

An engine locks the trigger, asks for the plan, and writes it in the same transaction. A schedule for all tenants
fires tenant by tenant: each plan takes some of them, and the fan-out goes on where it stopped.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from leasehold.model.decision import (
    Decision,
    DecisionKind,
    Evaluation,
    Match,
    Problem,
    Skip,
    decision_missed,
    decision_without_job,
    evaluate_fire,
)
from leasehold.model.definition import Registered
from leasehold.model.job import NewJob, Source, TenantId
from leasehold.model.limits import Pause
from leasehold.model.schedule import Cursor, DueFires, Schedule, catch_up, cursor_after, next_fire, spread_offset
from leasehold.model.template import moment_text
from leasehold.model.trigger import ALL, NewTrigger, Trigger, TriggerId

NO_TENANT = TenantId("")
"""The tenant of decisions about a schedule for all tenants as a whole."""
TRY_AGAIN = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Fire:
    """A decision about one fire time, and the job that it makes."""

    decision: Decision
    job: NewJob | None = None


@dataclass(frozen=True, slots=True)
class FanOut:
    """A fire for all tenants that is under way: tenants up to `after`, by name, have been decided about."""

    fire_at: datetime
    after: str = ""


@dataclass(frozen=True, slots=True)
class FirePlan:
    """The fires to write, and the state of the trigger after them. `next_at` None: it does not fire again."""

    fires: tuple[Fire, ...]
    cursor: Cursor
    last_at: datetime | None
    next_at: datetime | None
    fan_out: FanOut | None = None


def look_at(rule: NewTrigger, cursor: Cursor, pause: Pause | None) -> datetime | None:
    """Returns when a scheduler has to look at this schedule: at its next fire, but not before its pause is over."""
    if not rule.enabled or rule.schedule is None or (pause is not None and pause.until is None):
        return None
    fire = next_fire(rule.schedule, cursor)
    return fire if fire is None or pause is None or pause.until is None else max(fire, pause.until)


def plan_fires(trigger: Trigger, now: datetime, definition: Registered | None, most: int) -> FirePlan:
    """Plans the due fires of a schedule of one tenant, at most so many; the rest stays due."""
    tenant = trigger.tenant
    assert tenant is not ALL
    pause = trigger.pause
    trigger, schedule, cursor = _resumed(trigger)
    due = catch_up(schedule, trigger.rule.catch_up, cursor, now, trigger.rule.catch_up_cap)
    fires = _missed(trigger, tenant, due, pause)
    last = trigger.last_at
    taken = due.fires[:most]
    for fire_at in taken:
        fire = _fire(trigger, tenant, fire_at, definition)
        last = last if fire.job is None else fire_at
        fires.append(fire)
    if len(taken) == len(due.fires):
        return FirePlan(tuple(fires), due.cursor, last, due.next_at)
    return FirePlan(tuple(fires), cursor_after(schedule, cursor, taken[-1]), last, due.fires[len(taken)])


def plan_fan_out(trigger: Trigger, now: datetime) -> FirePlan:
    """Plans the next fire of a schedule for all tenants, without its jobs: `fan_out` is the fire to make."""
    pause = trigger.pause
    trigger, schedule, cursor = _resumed(trigger)
    due = catch_up(schedule, trigger.rule.catch_up, cursor, now, trigger.rule.catch_up_cap)
    missed = tuple(_missed(trigger, NO_TENANT, due, pause))
    if not due.fires:
        return FirePlan(missed, due.cursor, trigger.last_at, due.next_at)
    return FirePlan(missed, cursor, trigger.last_at, due.fires[0], FanOut(due.fires[0]))


def plan_tenants(
    trigger: Trigger, fan_out: FanOut, tenants: Sequence[TenantId], definition: Registered | None, *, complete: bool
) -> FirePlan:
    """Plans the jobs of these tenants, the next ones by name. With `complete`, no other tenant is left."""
    trigger, schedule, cursor = _resumed(trigger)
    fire_at, window = fan_out.fire_at, trigger.rule.spread
    fires = tuple(
        _fire(trigger, tenant, fire_at, definition, spread_offset(trigger.id, tenant, window)) for tenant in tenants
    )
    if not complete:
        return FirePlan(fires, cursor, trigger.last_at, fire_at, FanOut(fire_at, tenants[-1]))
    moved = cursor_after(schedule, cursor, fire_at)
    return FirePlan(fires, moved, fire_at, next_fire(schedule, moved))


def source_ref(trigger: TriggerId, fire_at: datetime) -> str:
    """Returns where the job of a fire comes from, like `0197c000-…@2027-03-14T07:00:00Z`."""
    return f"{trigger}@{moment_text(fire_at)}"


def _resumed(trigger: Trigger) -> tuple[Trigger, Schedule, Cursor]:
    """Returns the trigger without its pause, which is over: fires that it has missed are caught up by the policy."""
    assert trigger.rule.schedule is not None
    assert trigger.cursor is not None
    return replace(trigger, pause=None), trigger.rule.schedule, trigger.cursor


def _missed(trigger: Trigger, tenant: TenantId, due: DueFires, pause: Pause | None) -> list[Fire]:
    if not due.missed:
        return []
    return [Fire(decision_missed(trigger.id, tenant, due.missed[-1], due.missed_count, due.missed_more, pause))]


def _fire(
    trigger: Trigger,
    tenant: TenantId,
    fire_at: datetime,
    definition: Registered | None,
    offset: timedelta = timedelta(),
) -> Fire:
    found: Evaluation = evaluate_fire(trigger, tenant, fire_at, definition)
    if isinstance(found, Match):
        assert definition is not None
        return Fire(
            Decision(trigger=trigger.id, tenant=tenant, kind=DecisionKind.FIRED, fire_at=fire_at),
            NewJob(
                definition=trigger.rule.definition,
                version=definition.version,
                payload=found.payload,
                at=fire_at + offset,
                source=Source.SCHEDULE,
                source_ref=source_ref(trigger.id, fire_at),
                created_by=trigger.created_by,
            ),
        )
    assert isinstance(found, Skip | Problem)
    return Fire(decision_without_job(trigger.id, tenant, found, fire_at))
