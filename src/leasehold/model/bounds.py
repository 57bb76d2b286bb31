"""Bounds of the values that Leasehold accepts: moments, durations, whole numbers and texts.

Every constructor of the model checks its values here, and migration 0001 checks the same bounds in SQL. A value
within them can be written by every driver, added to the database's clock, and read back by Python. A value beyond
them cannot: `datetime.max` is stored as `infinity`, and no claim can calculate the time until then.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from leasehold.model.duration import HOW_TO_WRITE, LONGEST_DURATION

EARLIEST = datetime(1900, 1, 1, tzinfo=UTC)
"""The first moment that is accepted."""
LATEST = datetime(9999, 1, 1, tzinfo=UTC)
"""The first moment that is not accepted. A stored moment beyond it is shown as this one."""

LONGEST = timedelta(days=3650)
"""The longest delay, timeout, lease, window and fallback interval: now + LONGEST is a date on every engine."""
LONGEST_RETENTION = LONGEST_DURATION

MAX_INTEGER = 2**31 - 1
MIN_PRIORITY, MAX_PRIORITY = -(2**15), 2**15 - 1
MAX_TEXT = 1000
"""Characters of a short text: a reference, a correlation id, a reason."""
MAX_DESCRIPTION = 10_000


def storable(text: str) -> bool:
    """Returns whether Postgres can store the text: no NUL character, no lone surrogate."""
    return "\0" not in text and (text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text))


def problems_of_moment(name: str, value: Any) -> Iterator[str]:
    """Yields why this value is not a moment that can be stored; nothing if it is one."""
    if not isinstance(value, datetime):
        yield f"{name}={describe(value)} is not a datetime"
        return
    try:
        if value.utcoffset() is None:
            yield f"{name}={value} has no timezone and so names no moment, datetime.now(UTC) has one"
        elif not EARLIEST <= value < LATEST:
            yield f"{name}={value} is not in the years {EARLIEST.year} to {LATEST.year - 1}"
    except Exception as error:  # a timezone of the caller's own may raise anything
        yield f"{name} has a timezone that raises {type(error).__name__}"


def problems_of_duration(
    name: str, value: Any, *, least: timedelta = timedelta(), most: timedelta = LONGEST, above: bool = False
) -> Iterator[str]:
    """Yields why this value is not a duration from `least` to `most`; with `above`, `least` itself is too short."""
    if not isinstance(value, timedelta):
        yield f"{name}={_show(value)} is not a duration ({HOW_TO_WRITE[0].lower()}{HOW_TO_WRITE[1:]})"
    elif not least <= value <= most or (above and value == least):
        between = f"longer than {_spell(least)} and at most" if above else f"between {_spell(least)} and"
        yield f"{name}={value} is not {between} {most.days} days"


def problems_of_integer(name: str, value: Any, least: int, most: int = MAX_INTEGER, note: str = "") -> Iterator[str]:
    """Yields why this value is not a whole number in these bounds; `note` follows the problem."""
    if not isinstance(value, int) or isinstance(value, bool):
        yield f"{name}={value!r:.80} is not a whole number"
    elif value < least and most == MAX_INTEGER:
        yield f"{name}={_short(value)} is not at least {least}{note}"
    elif not least <= value <= most:
        yield f"{name}={_short(value)} is not between {least} and {most}{note}"


def problems_of_text(name: str, value: Any, most: int = MAX_TEXT, least: int = 0) -> Iterator[str]:
    """Yields why this value is not a text of `least` to `most` characters that can be stored."""
    if not isinstance(value, str):
        yield f"{name}={describe(value)} is not text"
    elif not storable(value):
        yield f"{name} has a NUL character or a lone surrogate, which can't be stored"
    elif len(value) > most:
        yield f"{name} has {len(value)} characters, at most {most} are kept"
    elif len(value) < least:
        yield f"{name} is empty"


def within_bounds(moment: datetime) -> datetime:
    """Returns the nearest moment that can be shown."""
    return min(max(moment, EARLIEST), LATEST)


def describe(value: object) -> str:
    """Returns the start of the value's repr, or the name of its type if the repr itself raises."""
    try:
        return f"{value!r:.80}"
    except Exception:
        return f"a value of type {type(value).__name__}"


def _spell(length: timedelta) -> str:
    return f"{length.total_seconds():g} s" if length else "zero"


def _show(value: object) -> str:
    try:
        return f"{value!a:.80}"
    except ValueError:
        return "a number of thousands of digits"


def _short(value: int) -> str:
    """Returns the number, or its size: Python refuses to write a whole number of more than 4,300 digits."""
    return str(value) if value.bit_length() <= 128 else f"a number of {value.bit_length()} bits"
