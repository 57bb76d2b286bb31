"""Cron schedules: five fields or an alias, in an IANA zone.

A field is `*`, a value, a range `1-5`, a step `*/15`, or a list of these. Months and weekdays have names (`JAN`,
`MON`); Sunday is 0 or 7. The day can be `L` (the last day of the month) or `LW` (its last weekday); the weekday can
be `5L` (the last Friday) or `MON#2` (the second Monday). If both the day and the weekday are restricted, a day that
fits one of them is enough; if one of the two starts with `*`, both must fit. `cronsim` finds the local times.

Clock changes, by cron's own rule:

*Fixed times*: neither the minute nor the hour starts with `*`, as in `30 2 * * *`. Each local time fires once, when
the zone's clock first shows it or passes it: a time in a gap fires at the first valid minute after the gap, and a
time that occurs twice fires at its first occurrence. Two times that fall on the same moment fire once. If a whole
local day is skipped, as in Apia on 30 December 2011, its times fire at the first minute after it.

*Wildcards*: the minute or the hour starts with `*`, as in `*/15 * * * *` or `0 */6 * * *`. The cron fires at every
real moment at which the zone's clock shows a time that fits, and so keeps running in real time: a gap has no such
moment, a fold has two.
"""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from leasehold.errors import InvalidInput
from leasehold.model.bounds import EARLIEST, LATEST, describe
from leasehold.model.zone import (
    WIDEST_SHIFT,
    ClockChange,
    changes_between,
    last_change,
    local_reading,
    offset_at,
    zone,
)

MAX_CRON = 250
"""Characters of a cron; a list of all 60 minutes has 169."""

ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

_SECOND = timedelta(seconds=1)
_MICROSECOND = timedelta(microseconds=1)
# Every calendar of fifty years contains all that a cron can ask for; cronsim searches as far.
_SOME_DAY = datetime(2000, 1, 1)
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    least: int
    most: int
    names: tuple[str, ...] = ()
    extra: str = ""

    @property
    def allowed(self) -> str:
        names = f" or {self.names[0]}-{self.names[-1]}" if self.names else ""
        return f"{self.least}-{self.most}{names}"


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31, extra=", L or LW"),
    _Field("month", 1, 12, _MONTHS),
    _Field("weekday", 0, 7, _DAYS, extra=", 5L or MON#2"),
)
_ITEM = re.compile(r"(?:(?P<star>\*)|(?P<low>[0-9A-Z]+)(?:-(?P<high>[0-9A-Z]+))?)(?:/(?P<step>[0-9]+))?")
_DAY_ITEM = re.compile(r"LW?")
_ORDINAL = re.compile(r"\b([0-9]+)th\b")
_WEEKDAY_ITEM = re.compile(r"[0-7]L|([0-7]|SUN|MON|TUE|WED|THU|FRI|SAT)#[1-5]")


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron schedule: Cron("0 2 * * *", zone="Europe/Berlin"). The module's docstring has the rules."""

    text: str
    zone: str = "UTC"
    _forward: CronSim = field(init=False, repr=False, compare=False)
    _backward: CronSim = field(init=False, repr=False, compare=False)

    def __init__(self, text: str, zone: str | ZoneInfo = "UTC") -> None:
        fields = _read(text)
        name = _zone_name(zone)
        try:
            forward = CronSim(fields, _SOME_DAY)
            next(_copy(forward))
        except (CronSimError, StopIteration) as error:
            raise _refused(
                text, "it never fires: no month has such a day", "Correct the day, the month or the weekday"
            ) from error
        object.__setattr__(self, "text", " ".join(text.split()))
        object.__setattr__(self, "zone", name)
        object.__setattr__(self, "_forward", forward)
        object.__setattr__(self, "_backward", CronSim(fields, _SOME_DAY, reverse=True))

    @property
    def is_fixed(self) -> bool:
        """Returns whether the cron has fixed times; otherwise it is a wildcard, which follows real time."""
        return not (self._forward.parts[1].startswith("*") or self._forward.parts[2].startswith("*"))

    def in_words(self) -> str:
        """Returns the cron as a sentence, like "At 02:30 every day"."""
        return _ORDINAL.sub(_ordinal, str(self._forward.explain()))

    def next_after(self, moment: datetime) -> datetime | None:
        """Returns the first fire after this moment; None if it is not within the bounds of moments (year 9998)."""
        if not EARLIEST <= moment < LATEST:
            return None
        if self.is_fixed:
            return self.next_after_local(self.reached(moment))
        return self._next_real(moment.astimezone(UTC))

    def last_at(self, moment: datetime) -> datetime | None:
        """Returns the last fire at or before this moment; None if it is before the year 1900."""
        if not EARLIEST <= moment < LATEST:
            return None
        if not self.is_fixed:
            return self._last_real(moment.astimezone(UTC))
        local = self._local_until(self.reached(moment))
        return None if local is None else _bounded(self.moment_of(local))

    def reached(self, moment: datetime) -> datetime:
        """Returns the latest local time that the zone's clock has shown up to this moment.

        This is the local time of the moment, or the end of a fold in which the moment lies: there the clock was set
        back, and shows times that it has shown before.
        """
        moment = moment.astimezone(UTC)
        reading = local_reading(moment, offset_at(self.zone, moment))
        for change in changes_between(self.zone, moment - WIDEST_SHIFT, moment):
            reading = max(reading, change.local_before - _MICROSECOND)
        return reading

    def skipped_by(self, change: ClockChange) -> datetime | None:
        """Returns the first local time that fits and that this clock change skips."""
        local = self._local_after(change.local_before - _SECOND) if change.is_gap else None
        return local if local is not None and local < change.local_after else None

    def next_after_local(self, local: datetime) -> datetime | None:
        """Returns the fire of the first fixed time after this local time."""
        found = self._local_after(local)
        return None if found is None else _bounded(self.moment_of(found))

    def moment_of(self, local: datetime) -> datetime:
        """Returns the first moment at which the zone's clock shows this local time or a later one."""
        near = local.replace(tzinfo=UTC)
        start = near - WIDEST_SHIFT
        offset = offset_at(self.zone, start)
        for change in changes_between(self.zone, start, near + WIDEST_SHIFT):
            if near - offset < change.at:
                break
            start, offset = change.at, change.after
        return max(start, near - offset)

    def _next_real(self, moment: datetime) -> datetime | None:
        """Returns the next wildcard fire: searches from one clock change to the next, as the offset is constant."""
        offset = offset_at(self.zone, moment)
        local = self._local_after(local_reading(moment, offset))
        while local is not None:
            fire = local.replace(tzinfo=UTC) - offset
            change = next(changes_between(self.zone, moment, fire), None)
            if change is None:
                return _bounded(fire)
            moment, offset = change.at, change.after
            local = self._local_after(change.local_after - _SECOND)
        return None

    def _last_real(self, moment: datetime) -> datetime | None:
        offset = offset_at(self.zone, moment)
        local = self._local_until(local_reading(moment, offset))
        while local is not None:
            fire = local.replace(tzinfo=UTC) - offset
            change = last_change(self.zone, fire, moment)
            if change is None:
                return _bounded(fire)
            moment, offset = change.at - _MICROSECOND, change.before
            local = self._local_until(change.local_before - _MICROSECOND)
        return None

    def _local_after(self, local: datetime) -> datetime | None:
        search = _copy(self._forward)
        search.dt = local.replace(microsecond=0)
        return _first_of(search)

    def _local_until(self, local: datetime) -> datetime | None:
        search = _copy(self._backward)
        search.dt = local.replace(microsecond=0) + _SECOND
        return _first_of(search)


def _ordinal(found: re.Match[str]) -> str:
    """Corrects an ordinal of cronsim, which writes "31th"."""
    number = int(found[1])
    ending = "th" if number in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _copy(search: CronSim) -> CronSim:
    """Copies a parsed cron, in a tenth of the time that parsing takes."""
    made = CronSim.__new__(CronSim)
    made.__dict__.update(search.__dict__)
    return made


def _first_of(search: CronSim) -> datetime | None:
    try:
        return next(search)
    except (StopIteration, OverflowError, ValueError):  # fifty years without a fire, or the end of the calendar
        return None


def _bounded(moment: datetime) -> datetime | None:
    return moment if EARLIEST <= moment < LATEST else None


def _zone_name(given: Any) -> str:
    name = given.key if isinstance(given, ZoneInfo) else given
    zone(name)
    return str(name)


def _read(text: Any) -> str:
    """Returns the five fields of a cron or an alias; raises InvalidInput with the field that can't be used."""
    if not isinstance(text, str):
        raise _refused(text, "it is not text", 'Write it like "0 2 * * *"')
    if len(text) > MAX_CRON:
        raise _refused(text, f"it has {len(text)} characters, at most {MAX_CRON} are kept", "Shorten it")
    if text.strip().startswith("@"):
        return _read_alias(text.strip())
    parts = text.upper().split()
    if len(parts) == 6:
        raise _refused(
            text,
            "it has six fields, and crons have no field for seconds",
            'Write minute, hour, day, month and weekday, or use every("10s")',
        )
    if len(parts) != 5:
        raise _refused(
            text, f"it has {len(parts)} fields, not five", "Write minute, hour, day of the month, month and weekday"
        )
    for position, (part, kind) in enumerate(zip(parts, _FIELDS, strict=True)):
        for item in part.split(","):
            if problem := _problem_of(item, kind, position):
                raise _refused(text, f"its {kind.name} {item!r:.40} {problem}", _how_to_write(kind))
    return " ".join(parts)


def _read_alias(alias: str) -> str:
    if (fields := ALIASES.get(alias.lower())) is None:
        near = get_close_matches(alias.lower(), ALIASES, n=1)
        hint = f'; did you mean "{near[0]}"?' if near else ""
        raise _refused(alias, f"this alias does not exist{hint}", f"Use one of {', '.join(ALIASES)}")
    return fields


def _problem_of(item: str, kind: _Field, position: int) -> str | None:
    if (position == 2 and _DAY_ITEM.fullmatch(item)) or (position == 4 and _WEEKDAY_ITEM.fullmatch(item)):
        return None
    found = _ITEM.fullmatch(item)
    if found is None:
        return "can't be read"
    ends = [text for text in (found["low"], found["high"]) if text]
    values = [_value(text, kind) for text in ends]
    for text, value in zip(ends, values, strict=True):
        if value is None or not kind.least <= value <= kind.most:
            return f"is out of range: {text} is not in {kind.allowed}"
    numbers = [value for value in values if value is not None]
    if len(numbers) == 2 and numbers[0] >= numbers[1]:
        return "is a range that does not rise; write its values as a list"
    return _problem_of_step(found["step"], kind)


def _problem_of_step(step: str | None, kind: _Field) -> str | None:
    most = kind.most - kind.least
    if step is None or (len(step) <= 2 and 1 <= int(step) <= most):
        return None
    return f'has a step that is not in 1-{most}, and would not repeat; for another interval use every("90m")'


def _value(text: str, kind: _Field) -> int | None:
    if text in kind.names:
        return kind.names.index(text) + kind.least
    return int(text) if text.isdigit() and len(text) <= 2 else None


def _how_to_write(kind: _Field) -> str:
    article = "An" if kind.name == "hour" else "A"
    return f"{article} {kind.name} is {kind.allowed}, *, a range, a step (*/2), a list (1,2){kind.extra}"


def _refused(text: Any, why: str, fix: str) -> InvalidInput:
    return InvalidInput(f"The cron {describe(text)} can't be used: {why}.", fix=f"Nothing was changed. {fix}.")
