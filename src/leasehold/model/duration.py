"""Reads durations, "90s", "1h30m", "7d", a timedelta or a number of seconds, and writes them for people."""

import re
from datetime import timedelta
from typing import Any, TypeAlias

from leasehold.errors import InvalidInput

Duration: TypeAlias = str | timedelta | float
"""The type of every parameter that is a duration. Type checkers accept an int as a float."""

HOW_TO_WRITE = 'Write "90s", "5m", "1h30m" or "7d", or pass a timedelta or a number of seconds'

LONGEST_DURATION = timedelta(days=36_500)
MAX_LENGTH = 60
_SECONDS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1, "ms": 0.001}
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
# Each unit at most once, from the largest to the smallest. `[0-9]`, because `\d` matches the digits of every script.
_TEXT = re.compile(r"\s*".join(rf"(?:({_NUMBER})\s*{unit})?" for unit in _SECONDS))
_BARE = re.compile(_NUMBER)


def read_duration(value: Any) -> timedelta:
    """Returns this duration as a timedelta; raises InvalidInput for a value that is not a duration."""
    if isinstance(value, timedelta):
        return value
    found = _from_text(value.strip()) if isinstance(value, str) else _from_number(value)
    if found is None:
        raise InvalidInput(f"{_show(value)} is not a duration.", fix=f"Nothing was changed. {HOW_TO_WRITE}.")
    if abs(found) > LONGEST_DURATION:
        raise InvalidInput(
            f"{_show(value)} is longer than {LONGEST_DURATION.days} days.", fix="Nothing was changed. Shorten it."
        )
    return found


def as_duration(value: Any) -> Any:
    """Returns this duration as a timedelta; a value that is not a duration as it is, for a later check to refuse."""
    try:
        return read_duration(value)
    except InvalidInput:
        return value


def seconds_of(value: Any) -> Any:
    """Returns this duration in seconds: numbers stay as they are, and so does a value that is not a duration."""
    if not isinstance(value, str | timedelta) or not isinstance(length := as_duration(value), timedelta):
        return value
    seconds = length.total_seconds()
    return int(seconds) if seconds.is_integer() else seconds


def spell(length: timedelta) -> str:
    """Returns a length of whole seconds in the largest unit that it is a multiple of: "36 h", "90 m", "7 d"."""
    seconds = int(length.total_seconds())
    unit = next(unit for unit in ("d", "h", "m", "s") if seconds % _SECONDS[unit] == 0)
    return f"{seconds // int(_SECONDS[unit])} {unit}"


def _from_text(text: str) -> timedelta | None:
    if not 0 < len(text) <= MAX_LENGTH:
        return None
    if _BARE.fullmatch(text):
        return _from_number(float(text))
    if match := _TEXT.fullmatch(text):
        numbers = zip(match.groups(), _SECONDS.values(), strict=True)
        return _from_number(sum(float(number) * seconds for number, seconds in numbers if number))
    return None


def _from_number(value: Any) -> timedelta | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return timedelta(seconds=value)
    except (OverflowError, ValueError):  # infinity, more than a timedelta can hold, NaN
        return None


def _show(value: Any) -> str:
    """Returns text as ASCII, so that `٣h` differs from 3h. Python refuses to write more than 4,300 digits."""
    try:
        shown = ascii(value) if isinstance(value, str) else repr(value)
    except ValueError:
        return "a number of thousands of digits"
    return shown if len(shown) <= MAX_LENGTH else f"{shown[:MAX_LENGTH]}…"


def span(length: timedelta) -> str:
    """`9 ms`, `0.8 s`, `42 s`, `2m 40s`, `3h 5m`, `2d 4h`."""
    seconds = max(length.total_seconds(), 0)
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for big, name, small, lesser in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= big:
            rest = whole % big // small
            return f"{whole // big}{name}" + (f" {rest}{lesser}" if rest else "")
    return f"{whole} s"
