"""Definitions as engines store them. Reading never fails: a newer release may have written what this one can't read.

Engines differ in how they write lengths of time: they give readers and written values for these.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Protocol, TypeVar

import orjson

from leasehold.errors import InvalidInput
from leasehold.model.backoff import DEFAULT, backoff_from_json
from leasehold.model.bounds import LONGEST, MAX_DESCRIPTION
from leasehold.model.definition import Definition, OnExhausted, Retention
from leasehold.model.payload import make_storable

T = TypeVar("T")

KEPT_FOR_EVER = Retention(None, None, None, None)
SHOWN_VALUE = 120


class Stored(Protocol):
    """A row or an item."""

    def get(self, name: str, /) -> Any: ...

    def __getitem__(self, name: str, /) -> Any: ...


def read_definition(
    stored: Stored, read_timeout: Callable[[Any], timedelta], read_retention: Callable[[Any], Retention]
) -> tuple[Definition, tuple[str, ...]]:
    """Reads a definition, with defaults where this release can't read it. Also returns what it could not read."""
    unreadable: list[str] = []

    def part(name: str, reader: Callable[[Any], T], default: T) -> T:
        try:
            return reader(stored.get(name))
        except Exception as error:
            why = error.happened if isinstance(error, InvalidInput) else f"{type(error).__name__}: {error}"
            unreadable.append(f"{name} {stored.get(name)!s:.{SHOWN_VALUE}} can't be read ({why:.{SHOWN_VALUE}})")
            return default

    definition = Definition(
        key=stored["key"],
        description=make_storable(stored["description"], MAX_DESCRIPTION),
        schema=part("schema", _read_schema, None),
        timeout=part("timeout", lambda length: _usable_timeout(read_timeout(length)), LONGEST),
        max_attempts=stored["max_attempts"],
        backoff=part("backoff", lambda text: backoff_from_json(orjson.loads(text)), DEFAULT.backoff),
        priority=stored["priority"],
        retention=part("retention", read_retention, KEPT_FOR_EVER),
        on_exhausted=part("on_exhausted", OnExhausted, OnExhausted.DEAD_LETTER),
        durable_claims=stored["durable_claims"],
    )
    return definition, tuple(unreadable)


def definition_values(definition: Definition, timeout: object, retention: object) -> dict[str, Any]:
    """Returns the values to store, with these for the timeout and the retention."""
    return {
        "key": definition.key,
        "description": definition.description,
        "schema": None if definition.schema is None else orjson.dumps(definition.schema).decode(),
        "timeout": timeout,
        "max_attempts": definition.max_attempts,
        "backoff": orjson.dumps(definition.backoff.as_json()).decode(),
        "priority": definition.priority,
        "retention": retention,
        "on_exhausted": definition.on_exhausted.value,
        "durable_claims": definition.durable_claims,
    }


def why_unusable(key: str, version: int, unreadable: tuple[str, ...]) -> str | None:
    """Returns why a job of this version must not run. It may without a backoff or a retention, but not unchecked."""
    if not any(problem.startswith("schema ") for problem in unreadable):
        return None
    return f"version {version} of {key!r} can't be read by this release: {'; '.join(unreadable)}"


def missing_definition(key: str, version: int, place: str) -> tuple[Definition, str]:
    """Returns a definition for a version that was deleted from the engine, and why its jobs can't run."""
    name = key if 0 < len(key) <= 100 else "unknown"
    return Definition(name), f"version {version} of {key!r:.120} is not in the {place} any more"


def _read_schema(text: str | None) -> Mapping[str, Any] | None:
    if text is None:
        return None
    schema = orjson.loads(text)
    if not isinstance(schema, dict):
        raise TypeError("it is not an object")
    return schema


def _usable_timeout(stored: timedelta) -> timedelta:
    """Returns a timeout that can be used. Ten years and 50 days are 3650 days to Postgres, which counts 360 days in a
    year, and more to Python.
    """
    if stored <= timedelta():
        raise ValueError("it is not longer than zero")
    return min(stored, LONGEST)
