"""Usage: how many attempts ended, how long they ran, and their processor time. No I/O.

An attempt counts in the hour of its end, whatever became of it. Its processor time is known if it ran a command, or a
handler with isolation="process", and its worker was there at its end; else the attempt counts as one of unknown time.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from leasehold.errors import InvalidInput
from leasehold.model.bounds import problems_of_moment
from leasehold.model.duration import Duration, read_duration

HOUR = timedelta(hours=1)
DEFAULT_LENGTH = "24h"
LONGEST_OF_TENANT, LONGEST_OF_ALL = timedelta(days=400), timedelta(days=31)
MOST_ROWS = 10_000


class Dimension(StrEnum):
    """By what usage is divided into rows. Days are those of UTC."""

    TENANT = "tenant"
    DEFINITION = "definition"
    HOUR = "hour"
    DAY = "day"


_DATE = re.compile(r"[0-9]{4}-")
_STEPS = {Dimension.HOUR: 3600, Dimension.DAY: 86400}


@dataclass(frozen=True, slots=True)
class UsageRow:
    """The usage of a tenant, of a definition, from `at` on for a step; of all of them where it is None.

    run       how long the attempts ran
    cpu       processor time of the attempts whose processor time is known
    unknown   how many attempts are of unknown processor time
    """

    tenant: str | None
    definition: str | None
    at: datetime | None
    attempts: int
    run: timedelta
    cpu: timedelta
    unknown: int


@dataclass(frozen=True, slots=True)
class UsageQuery:
    """Which usage to add up: from the hour `since` on, before the hour `till`."""

    since: datetime
    till: datetime
    by: frozenset[Dimension]
    definition: str | None = None

    @property
    def step(self) -> int | None:
        """The seconds of a step; None: the whole time is one."""
        return next((seconds for dimension, seconds in _STEPS.items() if dimension in self.by), None)


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage of a time, in rows. `total` is that of all rows."""

    query: UsageQuery
    rows: Sequence[UsageRow]
    total: UsageRow = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", _total(self.rows))


def read_dimensions(names: str | Iterable[str]) -> frozenset[Dimension]:
    """Reads names, each of which may be several with commas. Raises InvalidInput for an unknown one."""
    texts = [names] if isinstance(names, str) else names
    words = [word.strip() for text in texts for word in text.split(",") if word.strip()]
    try:
        found = frozenset(map(Dimension, words))
    except ValueError as error:
        known = ", ".join(Dimension)
        raise InvalidInput(
            f"usage can't be divided by {', '.join(words)!r:.80}: there are {known}.",
            fix="Nothing was read. Name some of these.",
        ) from error
    if {Dimension.HOUR, Dimension.DAY} <= found:
        raise InvalidInput("usage can't be divided by hour and by day.", fix="Nothing was read. Name one of the two.")
    return found


def usage_query(
    now: datetime,
    since: datetime | Duration,
    until: datetime | Duration | None,
    by: frozenset[Dimension],
    definition: str | None,
    *,
    of_all: bool,
) -> UsageQuery:
    """Returns the query for the whole hours of a time. Raises InvalidInput for one that can't be read.

    A time is a moment, its text, in UTC unless that names an offset, or a duration: so long before now.
    """
    begin = _hour(_moment("since", since, now))
    last = now if until is None else _moment("until", until, now) - timedelta(microseconds=1)
    end = _hour(last) + HOUR
    longest = LONGEST_OF_ALL if of_all else LONGEST_OF_TENANT
    if not begin < end:
        raise InvalidInput(
            f"no time is from {begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC.",
            fix="Nothing was read. Name a beginning before the end.",
        )
    if end - begin > longest + HOUR:
        raise InvalidInput(
            f"usage of {(end - begin).days} days can't be added up at once: at most {longest.days} days"
            f"{' of all tenants' if of_all else ''}.",
            fix="Nothing was read. Ask for a shorter time, or for one tenant.",
        )
    return UsageQuery(begin, end, by, definition)


def require_few(rows: Sequence[UsageRow]) -> Sequence[UsageRow]:
    """Raises InvalidInput for more rows than an answer has."""
    if len(rows) > MOST_ROWS:
        raise InvalidInput(
            f"the usage has more than {MOST_ROWS:,} rows.",
            fix="Nothing was returned. Ask for a shorter time, for one tenant, or divide it by less.",
        )
    return rows


def _moment(name: str, given: datetime | Duration, now: datetime) -> datetime:
    if isinstance(given, str) and _DATE.match(given):
        given = _read_moment(name, given)
    if not isinstance(given, datetime):
        length = read_duration(given)
        if length < timedelta():
            raise InvalidInput(f"{name}={given!r:.80} is in the future.", fix="Nothing was read. Name a time before.")
        return now - length
    if problems := list(problems_of_moment(name, given)):
        raise InvalidInput(f"Usage can't be read: {problems[0]}.", fix="Nothing was read. Correct the time.")
    return given.astimezone(UTC)


def _read_moment(name: str, text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInput(
            f"{name}={text!r:.80} is not a time.",
            fix="Nothing was read. Write it as 2030-01-31 or 2030-01-31T09:00Z.",
        ) from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _hour(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def _total(rows: Sequence[UsageRow]) -> UsageRow:
    return UsageRow(
        None,
        None,
        None,
        sum(row.attempts for row in rows),
        sum((row.run for row in rows), timedelta()),
        sum((row.cpu for row in rows), timedelta()),
        sum(row.unknown for row in rows),
    )
