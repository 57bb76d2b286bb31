"""Reads the traits of jobs as people write them: `>5m`, `<50`, `1..9`, `provider.id=p_9`."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TypeVar

from leasehold.errors import InvalidInput
from leasehold.model.duration import read_duration
from leasehold.model.redaction import is_secret_name
from leasehold.store import Traits

NAMES = ("worker", "dedupe_key", "priority", "duration", "payload")
T = TypeVar("T")


def read_traits(texts: Mapping[str, str | None]) -> Traits | None:
    """Reads texts by the names in NAMES; one that is None is left out. Returns None if all are.

    Raises InvalidInput.
    """
    given = {name: text for name in NAMES if (text := texts.get(name)) is not None}
    if not given:
        return None
    lowest, highest = read_priorities(given["priority"]) if "priority" in given else (None, None)
    shortest, longest = read_lengths(given["duration"]) if "duration" in given else (None, None)
    path, value = read_field(given["payload"]) if "payload" in given else ((), None)
    return Traits(
        worker=given["worker"].strip().lower() if "worker" in given else None,
        dedupe_key=given.get("dedupe_key"),
        lowest_priority=lowest,
        highest_priority=highest,
        shortest=shortest,
        longest=longest,
        payload_path=path,
        payload_value=value,
    )


def read_priorities(text: str) -> tuple[int | None, int | None]:
    """Reads `5`, `<50`, `>10` or `1..9`: the lowest and the highest priority."""
    example = "write 5, <50, >10 or 1..9"
    below, above = text.startswith("<"), text.startswith(">")
    lowest, highest = _read_bounds(text, lambda each: _integer(each, example), example, single=True)
    return (None if lowest is None else lowest + above, None if highest is None else highest - below)


def read_lengths(text: str) -> tuple[timedelta | None, timedelta | None]:
    """Reads `>5m`, `<10s` or `1m..5m`: the shortest and the longest duration."""
    return _read_bounds(text, read_duration, "write >5m, <10s or 1m..5m", single=False)


def _read_bounds(text: str, read: Callable[[str], T], example: str, *, single: bool) -> tuple[T | None, T | None]:
    written = text.strip()
    if written.startswith("<"):
        return None, read(written[1:])
    if written.startswith(">"):
        return read(written[1:]), None
    begin, dots, end = written.partition("..")
    if dots and (begin or end):
        return read(begin) if begin else None, read(end) if end else None
    if dots or not single:
        raise _unreadable(text, example)
    return read(written), read(written)


def _integer(text: str, example: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise _unreadable(text, example) from error


def read_field(text: str) -> tuple[tuple[str, ...], str]:
    """Reads `provider.id=p_9`: the names of a field of the payload, one inside of another, and its value.

    Raises InvalidInput also for a field that is redacted: else its value could be found out by trying.
    """
    path, equals, value = text.partition("=")
    if not equals or not path:
        raise _unreadable(text, "write a field of the payload and its value, as in provider.id=p_9")
    names = tuple(path.split("."))
    if hidden := next((name for name in names if is_secret_name(name)), None):
        raise InvalidInput(
            f"jobs can't be found by the field {hidden[:80]!r} of their payload: it holds a secret.",
            fix="Nothing was read. Choose another field.",
        )
    return names, value


def _unreadable(text: str, example: str) -> InvalidInput:
    return InvalidInput(f"{text[:80]!r} can't be read: {example}.", fix="Nothing was read. Correct it.")
