"""Schedules: a cron or a constant interval, the cursor that a scheduler keeps, and which fires are due.

All moments are in UTC. A fire time belongs to its trigger and is unique there, so two schedulers can't fire it twice.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from itertools import islice
from typing import Any

from leasehold.errors import InvalidInput
from leasehold.model.bounds import EARLIEST, LATEST, LONGEST, describe, problems_of_duration, problems_of_moment
from leasehold.model.cron import Cron
from leasehold.model.duration import Duration, as_duration, spell

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SHORTEST = timedelta(seconds=1)
ON_TIME = timedelta(seconds=60)
"""A fire that is at most so late is on time: `skip` still runs it."""
DEFAULT_CAP = 100
MAX_CAP = 1000
MAX_COUNTED = 1000
"""Missed fires of a cron are counted up to this number: a year of minutes would take seconds."""
MAX_LISTED = 20
MAX_SPREAD = timedelta(days=1)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Every:
    """A constant interval, whatever clocks do: Every("15m") fires at :00, :15, :30 and :45.

    Fires are whole intervals away from the anchor, by default midnight of 1 January 1970 in UTC, before and after it.
    An interval is at least a second, and whole seconds long.
    """

    interval: timedelta
    anchor: datetime = EPOCH

    def __init__(self, interval: Duration, anchor: datetime = EPOCH) -> None:
        length = as_duration(interval)
        problems = [*problems_of_duration("interval", length, least=SHORTEST), *problems_of_moment("anchor", anchor)]
        if not problems and length % SHORTEST:
            problems = [f"interval={length} is not whole seconds"]
        if problems:
            raise InvalidInput(
                f"every({describe(interval)}) can't be used: {'; '.join(problems)}.",
                fix='Nothing was changed. Write every("15m"), from "1s" to "3650d"; the anchor is a datetime in UTC.',
            )
        object.__setattr__(self, "interval", length)
        object.__setattr__(self, "anchor", anchor.astimezone(UTC))

    @property
    def zone(self) -> str:
        return "UTC"

    def in_words(self) -> str:
        """Returns the schedule as words, like "Every 15 m"."""
        anchor = "" if self.anchor == EPOCH else f", counted from {self.anchor:%Y-%m-%d %H:%M:%S} UTC"
        return f"Every {spell(self.interval)}{anchor}"

    def next_after(self, moment: datetime) -> datetime | None:
        """Returns the first fire after this moment; None if it is not within the bounds of moments (year 9998)."""
        return self._fire((moment - self.anchor) // self.interval + 1)

    def last_at(self, moment: datetime) -> datetime | None:
        """Returns the last fire at or before this moment; None if it is before the year 1900."""
        return self._fire((moment - self.anchor) // self.interval)

    def count(self, after: datetime, until: datetime) -> int:
        """Returns the number of fires in (after, until]."""
        return max(0, (until - self.anchor) // self.interval - (after - self.anchor) // self.interval)

    def _fire(self, number: int) -> datetime | None:
        try:
            fire = self.anchor + number * self.interval
        except OverflowError:
            return None
        return fire if EARLIEST <= fire < LATEST else None


def every(interval: Duration, anchor: datetime = EPOCH) -> Every:
    """Returns a schedule with a constant interval: every("15m")."""
    return Every(interval, anchor)


Schedule = Cron | Every


def schedule_as_json(schedule: Schedule) -> dict[str, Any]:
    """Returns the schedule as stored: {"cron", "zone"} or {"every", "anchor"}."""
    if isinstance(schedule, Cron):
        return {"cron": schedule.text, "zone": schedule.zone}
    return {"every": int(schedule.interval.total_seconds()), "anchor": schedule.anchor.isoformat()}


def schedule_from_json(stored: Mapping[str, Any]) -> Schedule:
    """Returns a stored schedule; raises InvalidInput for one that this release can't use."""
    if "cron" in stored:
        return Cron(stored["cron"], stored["zone"])
    return Every(stored["every"], datetime.fromisoformat(stored["anchor"]))


def fires_between(schedule: Schedule, after: datetime, until: datetime, limit: int) -> list[datetime]:
    """Returns the fires in (after, until], the earliest first, at most `limit`."""
    found: list[datetime] = []
    fire = schedule.next_after(after)
    while fire is not None and fire <= until and len(found) < limit:
        found.append(fire)
        fire = schedule.next_after(fire)
    return found


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a trigger has come: all fires up to here were decided.

    `local` is kept for crons with fixed times: the local time reached, without a zone, as ISO text. It stays true if
    a new tzdata moves the zone's offset: the 02:00 that has fired does not fire again an hour later, and a 02:30 that
    would now be before `at` still fires. Start a new cursor, by `cursor_at`, if the schedule itself is changed.
    """

    at: datetime
    local: str | None = None


def cursor_at(schedule: Schedule, moment: datetime) -> Cursor:
    """Returns the cursor of a schedule that begins at this moment: it fires after it."""
    if isinstance(schedule, Cron) and schedule.is_fixed:
        return Cursor(moment.astimezone(UTC), schedule.reached(moment).isoformat(timespec="seconds"))
    return Cursor(moment.astimezone(UTC))


def next_fire(schedule: Schedule, cursor: Cursor) -> datetime | None:
    """Returns the first fire that was not decided yet; it may be in the past."""
    if isinstance(schedule, Cron) and schedule.is_fixed and cursor.local is not None:
        return schedule.next_after_local(datetime.fromisoformat(cursor.local))
    return schedule.next_after(cursor.at)


def fire_before(schedule: Schedule, fire: datetime) -> datetime:
    """Returns the fire before this one by the calendar, whether it ran or not.

    The first fire after the bound of moments, the year 1900, has none before it, and is returned itself.
    """
    return schedule.last_at(fire - _MICROSECOND) or fire


class CatchUp(StrEnum):
    """Which fires run after a time in which no scheduler ran."""

    SKIP = "skip"
    """None; a fire that is at most a minute late is on time and runs."""
    LATEST = "latest"
    """The latest one."""
    ALL = "all"
    """Each of them, the latest ones if they are more than the cap."""


@dataclass(frozen=True, slots=True)
class DueFires:
    """The fires up to now: those to run, those missed, and how it goes on. Without a due fire the cursor stays.

    `missed` lists the latest missed fires, at most 20, the earliest first; `missed_count` is their number. If
    `missed_more` is set, there are more: fires of a cron are counted up to a thousand.
    """

    fires: tuple[datetime, ...]
    missed: tuple[datetime, ...]
    missed_count: int
    missed_more: bool
    cursor: Cursor
    next_at: datetime | None


def catch_up(schedule: Schedule, policy: CatchUp, cursor: Cursor, now: datetime, cap: int = DEFAULT_CAP) -> DueFires:
    """Decides which of the fires in (cursor, now] run by the policy. Costs at most about MAX_COUNTED fires."""
    due = list(islice(_due_backwards(schedule, cursor, now), MAX_COUNTED + 1))
    if not due:
        return DueFires((), (), 0, False, cursor, next_fire(schedule, cursor))
    match policy:
        case CatchUp.SKIP:
            runs = 1 if now - due[0] <= ON_TIME else 0
        case CatchUp.LATEST:
            runs = 1
        case CatchUp.ALL:
            runs = min(cap, MAX_CAP)
    count, more = len(due), len(due) > MAX_COUNTED
    if isinstance(schedule, Every):
        count, more = schedule.count(cursor.at, now), False
    moved = cursor_after(schedule, cursor, due[0])
    missed = due[runs : runs + MAX_LISTED]
    return DueFires(
        fires=tuple(reversed(due[:runs])),
        missed=tuple(reversed(missed)),
        # With a cap of a thousand, as many fires run as are counted, and one that is missed is still listed.
        missed_count=max(len(missed), min(count, MAX_COUNTED) - runs) if more else max(0, count - runs),
        missed_more=more,
        cursor=moved,
        next_at=next_fire(schedule, moved),
    )


def _due_backwards(schedule: Schedule, cursor: Cursor, now: datetime) -> Iterator[datetime]:
    """Yields the due fires, the latest first."""
    first = next_fire(schedule, cursor)
    fire = schedule.last_at(now) if first is not None and first <= now else None
    while fire is not None and first is not None and fire >= first:
        yield fire
        fire = schedule.last_at(fire - _MICROSECOND)


def cursor_after(schedule: Schedule, cursor: Cursor, fire: datetime) -> Cursor:
    """Returns the cursor after this fire. It never goes back, even if a new tzdata puts the fire before it."""
    reached = cursor_at(schedule, fire)
    local = max(cursor.local, reached.local) if cursor.local and reached.local else reached.local
    return Cursor(max(cursor.at, reached.at), local)


def spread_offset(trigger: str, tenant: str, window: timedelta) -> timedelta:
    """Returns this tenant's share of the spread window: whole seconds from 0, always the same for the two ids."""
    seconds = int(window.total_seconds())
    if seconds <= 0:
        return timedelta()
    digest = sha256(f"{trigger}\n{tenant}".encode()).digest()
    return timedelta(seconds=int.from_bytes(digest[:8], "big") % seconds)


def problems_of_spread(value: Any) -> Iterator[str]:
    """Yields why this value is not a spread window."""
    yield from problems_of_duration("spread", value, most=min(MAX_SPREAD, LONGEST))
