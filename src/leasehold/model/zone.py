"""Zones and their clock changes, read from the `tzdata` package.

The system's zone files are not read. Machines update them at different times, and slim images have none; the package
is a dependency, so all workers that run the same lock file agree. `tzdata_version()` names its release, for example
"2026f"; update the package to get new rules.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import lru_cache
from importlib import resources
from typing import Any
from zoneinfo import ZoneInfo

import tzdata  # type: ignore[import-untyped]

from leasehold.errors import InvalidInput
from leasehold.model.bounds import EARLIEST, LATEST, describe

WIDEST_SHIFT = timedelta(hours=26)
"""Longer than every clock change and every offset: Kiritimati skipped 24 hours in 1995."""
_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class ClockChange:
    """The moment from which a zone has another offset. Clocks go forward (a gap) if `shift` is positive."""

    at: datetime
    before: timedelta
    after: timedelta

    @property
    def shift(self) -> timedelta:
        return self.after - self.before

    @property
    def is_gap(self) -> bool:
        """Returns whether local times are skipped; otherwise local times occur twice (a fold)."""
        return self.after > self.before

    @property
    def local_before(self) -> datetime:
        """The local time, without a zone, at which the change begins: 02:00 where clocks go 02:00 → 03:00."""
        return local_reading(self.at, self.before)

    @property
    def local_after(self) -> datetime:
        """The local time, without a zone, that follows: 03:00 where clocks go 02:00 → 03:00."""
        return local_reading(self.at, self.after)


def zone(name: Any) -> ZoneInfo:
    """Returns the IANA zone of this name; raises InvalidInput with the nearest name for one that is unknown."""
    if not isinstance(name, str):
        raise InvalidInput(
            f"The zone {describe(name)} is not text.",
            fix='Nothing was changed. Pass the name of an IANA zone, like "Europe/Berlin".',
        )
    if name not in zone_names():
        near = _nearest(name)
        hint = f' Did you mean "{near}"?' if near else ""
        raise InvalidInput(
            f"tzdata {tzdata_version()} has no zone {name!r:.80}.{hint}",
            fix='Nothing was changed. Pass the name of an IANA zone, like "Europe/Berlin" or "UTC".',
        )
    return _load(name)


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """Returns the names of all zones."""
    return frozenset(resources.files("tzdata").joinpath("zones").read_text("utf-8").split())


def tzdata_version() -> str:
    """Returns the release of the rules in use, as in "2026f"."""
    return str(tzdata.IANA_VERSION)


def offset_at(name: str, moment: datetime) -> timedelta:
    """Returns the zone's offset from UTC at this moment."""
    offset = moment.astimezone(_load(name)).utcoffset()
    assert offset is not None
    return offset


def local_reading(moment: datetime, offset: timedelta) -> datetime:
    """Returns the local time, without a zone, that a clock with this offset shows at this moment."""
    return moment.astimezone(UTC).replace(tzinfo=None) + offset


def changes_between(name: str, after: datetime, until: datetime) -> Iterator[ClockChange]:
    """Yields the zone's clock changes in (after, until], two moments in UTC, the earliest first."""
    for year in range(after.year, until.year + 1):
        for change in _changes_in(name, year):
            if change.at > until:
                return
            if change.at > after:
                yield change


def last_change(name: str, after: datetime, until: datetime) -> ClockChange | None:
    """Returns the zone's last clock change in (after, until], two moments in UTC."""
    for year in range(until.year, after.year - 1, -1):
        for change in reversed(_changes_in(name, year)):
            if change.at <= until:
                return change if change.at > after else None
    return None


@lru_cache(maxsize=1024)
def _load(name: str) -> ZoneInfo:
    with resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def _nearest(name: str) -> str | None:
    by_lower = {known.lower(): known for known in sorted(zone_names())}
    wanted = name[:80].strip().lower().replace(" ", "_")
    # "berlin" is far from "europe/berlin", but is its last word.
    cities = {known.rsplit("/", 1)[-1]: known for known in by_lower}
    near = get_close_matches(wanted, by_lower, n=1, cutoff=0.75) or [
        cities[city] for city in get_close_matches(wanted.rsplit("/", 1)[-1], cities, n=1, cutoff=0.75)
    ]
    return by_lower[near[0]] if near else None


@lru_cache(maxsize=16_384)
def _changes_in(name: str, year: int) -> tuple[ClockChange, ...]:
    """Finds the changes from this year's first moment, exclusive, to the next year's, inclusive.

    Python's ZoneInfo does not list them, so each day's offset is compared with the day before. Since 1900 no zone
    has changed its clocks twice within five days. It takes 0.4 ms, once for each zone and year.
    """
    if not EARLIEST.year <= year < LATEST.year:
        return ()
    start, end = datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)
    found = []
    offset = offset_at(name, start)
    while start < end:
        following = start + _DAY
        if (after := offset_at(name, following)) != offset:
            found.append(ClockChange(_first_with(name, after, start, following), offset, after))
        start, offset = following, after
    return tuple(found)


def _first_with(name: str, offset: timedelta, low: datetime, high: datetime) -> datetime:
    while high - low > _SECOND:
        middle = low + timedelta(seconds=(high - low) // _SECOND // 2)
        low, high = (low, middle) if offset_at(name, middle) == offset else (middle, high)
    return high
