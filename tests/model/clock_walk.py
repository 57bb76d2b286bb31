"""A slow, obvious oracle for crons: walks over the minutes of UTC and looks at the zone's clock at each of them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from importlib import resources
from itertools import pairwise
from zoneinfo import ZoneInfo

from leasehold.model.zone import zone, zone_names

MINUTE = timedelta(minutes=1)
START = datetime(2026, 1, 1, tzinfo=UTC)
END = datetime(2028, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Walked:
    """A cron, and the same rule as a Python expression on a local time."""

    cron: str
    fits: Callable[[datetime], bool]
    fixed: bool


CRONS = (
    Walked("30 2 * * *", lambda t: t.minute == 30 and t.hour == 2, fixed=True),
    Walked("15 0,1,3 * * *", lambda t: t.minute == 15 and t.hour in (0, 1, 3), fixed=True),
    Walked("0 0 * * 0", lambda t: t.minute == 0 and t.hour == 0 and t.isoweekday() == 7, fixed=True),
    Walked(
        "45 1-2 1-7,25-31 3,10,11 *", lambda t: _late_or_early(t) and t.minute == 45 and t.hour in (1, 2), fixed=True
    ),
    Walked("0 * * * *", lambda t: t.minute == 0, fixed=False),
    Walked("*/30 2 * * *", lambda t: t.minute in (0, 30) and t.hour == 2, fixed=False),
)


def _late_or_early(t: datetime) -> bool:
    return t.month in (3, 10, 11) and not 8 <= t.day <= 24


def distinct_zones() -> list[str]:
    """Returns one name for each set of rules: `Europe/Berlin` and `Arctic/Longyearbyen` have the same file."""
    by_rules: dict[bytes, str] = {}
    for name in sorted(zone_names()):
        file = resources.files("tzdata").joinpath("zoneinfo", *name.split("/"))
        by_rules.setdefault(sha256(file.read_bytes()).digest(), name)
    return sorted(by_rules.values())


def zones_with_other_clocks() -> list[str]:
    """Returns one name for each way in which a clock goes in the two years: other years can't change their fires."""
    by_clock: dict[tuple[object, ...], str] = {}
    for name in distinct_zones():
        changes = [change for window in windows_around_changes(name) for change in _changes(name, *window)]
        by_clock.setdefault((START.astimezone(zone(name)).utcoffset(), *changes), name)
    return sorted(by_clock.values())


def _changes(name: str, start: datetime, end: datetime) -> Iterator[tuple[datetime, timedelta]]:
    """Yields the minutes in which the clock is changed, and by how much."""
    for (_, before), (moment, after) in pairwise(readings(name, start, end)):
        if after - before != MINUTE:
            yield moment, after - before


def readings(name: str, start: datetime, end: datetime) -> list[tuple[datetime, datetime]]:
    """Returns each minute of UTC from start to before end, with the local time that a clock shows."""
    place: ZoneInfo = zone(name)
    minutes = range(int((end - start) / MINUTE))
    moments = (start + number * MINUTE for number in minutes)
    return [(moment, moment.astimezone(place).replace(tzinfo=None, fold=0)) for moment in moments]


def walk(walked: Walked, seen: list[tuple[datetime, datetime]]) -> Iterator[datetime]:
    """Yields the minutes at which a cron fires, after the first one.

    A wildcard fires if the clock shows a time that fits. A fixed time fires when the latest time shown so far passes
    it, so every skipped minute is looked at when the clock jumps over it, and a repeated one is not looked at again.
    """
    latest = seen[0][1]
    for moment, reading in seen[1:]:
        if not walked.fixed:
            if walked.fits(reading):
                yield moment
            continue
        fires = False
        while latest < reading:
            latest += MINUTE
            fires |= walked.fits(latest)
        if fires:
            yield moment


def windows_around_changes(name: str) -> list[tuple[datetime, datetime]]:
    """Returns about five hours before and after each clock change of the two years; a day for a zone without any."""
    place = zone(name)
    step = timedelta(hours=4)
    moments = [START + number * step for number in range(int((END - START) / step))]
    offsets = [moment.astimezone(place).utcoffset() for moment in moments]
    changes = [moments[i] for i in range(1, len(moments)) if offsets[i] != offsets[i - 1]]
    return [(at - 2 * step, at + step) for at in changes] or [(START, START + timedelta(days=1))]
