"""Previews of schedules: the next runs in three zones, with clock changes marked.

The moments come from the functions that the scheduler uses. Five runs of a daily schedule rarely contain a clock
change, so the runs around the next one are always appended.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from leasehold.errors import InvalidInput
from leasehold.model.bounds import problems_of_integer, problems_of_moment
from leasehold.model.cron import Cron
from leasehold.model.schedule import Schedule
from leasehold.model.zone import (
    WIDEST_SHIFT,
    ClockChange,
    changes_between,
    last_change,
    local_reading,
    offset_at,
    zone,
)

MAX_RUNS = 100
LOOK_AHEAD = timedelta(days=2 * 366)
"""How far the next clock change is searched."""
_AROUND = 2
_MICROSECOND = timedelta(microseconds=1)


class MarkKind(StrEnum):
    GAP = "gap"
    """Local times are skipped: a fixed time runs at the first valid minute, a wildcard has no run in it."""
    FOLD = "fold"
    """The local time occurs twice: a fixed time runs at the first, a wildcard at both."""
    OFFSET = "offset"
    """The first run in its usual place with another offset from UTC."""


@dataclass(frozen=True, slots=True)
class Mark:
    kind: MarkKind
    note: str


@dataclass(frozen=True, slots=True)
class Run:
    """A run to come, in UTC, in the zone of the schedule and in that of the viewer."""

    at: datetime
    local: datetime
    viewer: datetime
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class Preview:
    """The next runs, the first clock change after them within two years, and the runs around that change."""

    runs: tuple[Run, ...]
    change: ClockChange | None
    around: tuple[Run, ...]


def preview(schedule: Schedule, after: datetime, count: int = 5, viewer_zone: str = "UTC") -> Preview:
    """Returns the next `count` runs after a moment, and those around the next clock change of the schedule's zone."""
    zone(viewer_zone)
    if problems := [*problems_of_moment("after", after), *problems_of_integer("count", count, 1, MAX_RUNS)]:
        raise InvalidInput(
            f"The preview can't be made: {'; '.join(problems)}.", fix="Nothing was changed. Correct the values."
        )
    after = after.astimezone(UTC)
    moments = _following(schedule, after, count)
    last = moments[-1] if moments else after
    change = next(changes_between(schedule.zone, last, last + LOOK_AHEAD), None)
    around = _near(schedule, change, last) if change else []
    return Preview(
        runs=_marked(schedule, moments, viewer_zone),
        change=change,
        around=_marked(schedule, around, viewer_zone),
    )


def _following(schedule: Schedule, after: datetime, count: int) -> list[datetime]:
    found: list[datetime] = []
    while len(found) < count and (fire := schedule.next_after(found[-1] if found else after)) is not None:
        found.append(fire)
    return found


def _near(schedule: Schedule, change: ClockChange, after: datetime) -> list[datetime]:
    """Returns the last runs before a clock change that follow the given moment, and the first ones after it."""
    before: list[datetime] = []
    fire = schedule.last_at(change.at - _MICROSECOND)
    while fire is not None and fire > after and len(before) < _AROUND:
        before.insert(0, fire)
        fire = schedule.last_at(fire - _MICROSECOND)
    return before + _following(schedule, change.at - _MICROSECOND, _AROUND)


def _marked(schedule: Schedule, moments: Iterable[datetime], viewer_zone: str) -> tuple[Run, ...]:
    runs: list[Run] = []
    reported: ClockChange | None = None
    for at in moments:
        marks = _marks(schedule, at) if isinstance(schedule, Cron) else []
        change = _crossed(schedule, at, moved_before=bool(runs) and _is_moved(runs[-1]))
        moved = any(mark.kind is MarkKind.GAP for mark in marks)
        if change is not None and change != reported and not moved:
            marks.append(_mark_of_crossing(schedule, change))
            reported = change
        runs.append(Run(at, at.astimezone(zone(schedule.zone)), at.astimezone(zone(viewer_zone)), tuple(marks)))
    return tuple(runs)


def _marks(cron: Cron, at: datetime) -> list[Mark]:
    """Returns the marks of a fixed time in a gap, and of a local time that occurs twice."""
    reading = local_reading(at, offset_at(cron.zone, at))
    marks = []
    for change in changes_between(cron.zone, at - WIDEST_SHIFT, at + WIDEST_SHIFT):
        if change.is_gap:
            if cron.is_fixed and change.at == at and (wanted := cron.skipped_by(change)):
                note = f"{_clock(wanted)} does not exist that day ({_turn(change)}); runs at {_clock(reading)}"
                marks.append(Mark(MarkKind.GAP, note))
        elif change.local_after <= reading < change.local_before:
            which = "once, at the first" if cron.is_fixed else "both times"
            marks.append(Mark(MarkKind.FOLD, f"{_clock(reading)} occurs twice ({_turn(change)}); runs {which}"))
    return marks


def _crossed(schedule: Schedule, at: datetime, moved_before: bool) -> ClockChange | None:
    """Returns the clock change between the run before and this one; at the run before, if that one was moved."""
    before = schedule.last_at(at - _MICROSECOND)
    if before is None:
        return None
    return last_change(schedule.zone, before - _MICROSECOND if moved_before else before, at)


def _mark_of_crossing(schedule: Schedule, change: ClockChange) -> Mark:
    skipped = schedule.skipped_by(change) if isinstance(schedule, Cron) and not schedule.is_fixed else None
    if skipped is not None:
        return Mark(MarkKind.GAP, f"{_clock(skipped)} does not exist that day ({_turn(change)}); no run in the gap")
    note = f"{_turn(change)}; the offset is {_signed(change.after)} instead of {_signed(change.before)}"
    return Mark(MarkKind.OFFSET, note)


def _is_moved(run: Run) -> bool:
    return any(mark.kind is MarkKind.GAP for mark in run.marks)


def _turn(change: ClockChange) -> str:
    return f"clocks go {_clock(change.local_before)} → {_clock(change.local_after)}"


def _clock(local: datetime) -> str:
    return f"{local:%H:%M}" if not local.second else f"{local:%H:%M:%S}"


def _signed(offset: timedelta) -> str:
    minutes = abs(offset) // timedelta(minutes=1)
    return f"{'-' if offset < timedelta() else '+'}{minutes // 60:02}:{minutes % 60:02}"
