"""Sums of usage: the figures of ended attempts, by tenant, definition and hour. No I/O."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from leasehold.engines.dynamodb.keys import read_timestamp, timestamp
from leasehold.model.job import TenantId
from leasehold.model.stored_values import read_object
from leasehold.model.usage import Dimension, UsageQuery, UsageRow

MOST_CPU_SECONDS = 1_000_000_000
_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, order=True)
class Hour:
    """The place of an attempt: `at` is the hour of its end, as a timestamp."""

    tenant: TenantId
    at: str
    definition: str


@dataclass(frozen=True, slots=True)
class Figures:
    """Sums over attempts, in microseconds: numbers of DynamoDB that are added are exact. `known` counts the attempts
    of known processor time.
    """

    attempts: int
    run: int
    cpu: int
    known: int

    def __add__(self, other: "Figures") -> "Figures":
        return Figures(
            self.attempts + other.attempts,
            self.run + other.run,
            self.cpu + other.cpu,
            self.known + other.known,
        )


Tally = Mapping[Hour, Figures]
Ended = tuple[Hour, Figures]
"""An attempt that has ended."""


def ended(tenant: TenantId, definition: str, started: datetime, finished: datetime, details: str | None) -> Ended:
    """Returns the place and the figures of one attempt. `details` is the JSON text of its details."""
    seconds = read_object(details).get("cpu_seconds") if details else None
    is_known = isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 <= seconds <= MOST_CPU_SECONDS
    cpu = timedelta(seconds=seconds) // _MICROSECOND if is_known and seconds else 0
    hour = finished.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    run = max(0, (finished - started) // _MICROSECOND)  # two servers wrote these, by clocks of their own
    return Hour(tenant, timestamp(hour), definition), Figures(1, run, cpu, int(is_known))


def add(tallied: Iterable[Ended]) -> dict[Hour, Figures]:
    found: dict[Hour, Figures] = {}
    for hour, figures in tallied:
        found[hour] = found[hour] + figures if hour in found else figures
    return found


def to_lists(tally: Tally) -> list[list[Any]]:
    return [
        [hour.tenant, hour.at, hour.definition, each.attempts, each.run, each.cpu, each.known]
        for hour, each in sorted(tally.items())
    ]


def size_of(hour: Hour) -> int:
    """Returns the bytes that a sum takes in such a list at most."""
    return len(hour.tenant.encode()) + len(hour.definition.encode()) + 80


def from_lists(stored: Sequence[Sequence[Any]]) -> dict[Hour, Figures]:
    return {Hour(TenantId(each[0]), each[1], each[2]): Figures(*each[3:]) for each in stored}


def rows(tally: Tally, query: UsageQuery, limit: int) -> list[UsageRow]:
    """Returns the rows of a query: by time, then the longest run time first."""
    since, till = timestamp(query.since), timestamp(query.till)
    wanted = (
        (_divided(hour, query), figures)
        for hour, figures in tally.items()
        if since <= hour.at < till and query.definition in (None, hour.definition)
    )
    summed: dict[tuple[str | None, str | None, datetime | None], Figures] = {}
    for place, figures in wanted:
        summed[place] = summed[place] + figures if place in summed else figures
    found = [_row(place, figures) for place, figures in summed.items()]
    found.sort(key=lambda row: (row.at or _EPOCH, -row.run, row.tenant or "", row.definition or ""))
    return found[:limit]


def _divided(hour: Hour, query: UsageQuery) -> tuple[str | None, str | None, datetime | None]:
    tenant = hour.tenant if Dimension.TENANT in query.by else None
    definition = hour.definition if Dimension.DEFINITION in query.by else None
    at = None
    if query.step is not None:
        moment = read_timestamp(hour.at)
        at = moment - (moment - _EPOCH) % timedelta(seconds=query.step)
    return tenant, definition, at


def _row(place: tuple[str | None, str | None, datetime | None], figures: Figures) -> UsageRow:
    run, cpu = timedelta(microseconds=figures.run), timedelta(microseconds=figures.cpu)
    return UsageRow(*place, figures.attempts, run, cpu, figures.attempts - figures.known)
