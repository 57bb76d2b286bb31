"""Definitions as rows, and back. Reading never fails: a newer release may have written what this one can't read."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import Any, TypeVar

import orjson
from asyncpg import Record

from leasehold.errors import InvalidInput
from leasehold.model.backoff import DEFAULT, backoff_from_json
from leasehold.model.bounds import LONGEST, LONGEST_RETENTION, MAX_DESCRIPTION
from leasehold.model.definition import Definition, OnExhausted, Registered, Retention
from leasehold.model.payload import make_storable

T = TypeVar("T")

KEPT_FOR_EVER = Retention(None, None, None, None)
SHOWN_VALUE = 120


def read_registered(row: Record) -> Registered:
    definition, unreadable = read(row)
    return Registered(definition, row["version"], row["active"], unreadable)


def read(row: Record) -> tuple[Definition, tuple[str, ...]]:
    """Reads a definition, with defaults where this release can't read it. Also returns what it could not read."""
    unreadable: list[str] = []

    def part(name: str, reader: Callable[[Any], T], default: T) -> T:
        try:
            return reader(row[name])
        except Exception as error:
            why = error.happened if isinstance(error, InvalidInput) else f"{type(error).__name__}: {error}"
            unreadable.append(f"{name} {row[name]!s:.{SHOWN_VALUE}} can't be read ({why:.{SHOWN_VALUE}})")
            return default

    definition = Definition(
        key=row["key"],
        description=make_storable(row["description"], MAX_DESCRIPTION),
        schema=part("schema", _schema, None),
        timeout=part("timeout", _timeout, LONGEST),
        max_attempts=row["max_attempts"],
        backoff=part("backoff", lambda text: backoff_from_json(orjson.loads(text)), DEFAULT.backoff),
        priority=row["priority"],
        retention=part("retention", lambda text: _retention(orjson.loads(text)), KEPT_FOR_EVER),
        on_exhausted=part("on_exhausted", OnExhausted, OnExhausted.DEAD_LETTER),
        durable_claims=row["durable_claims"],
    )
    return definition, tuple(unreadable)


def why_unusable(key: str, version: int, unreadable: tuple[str, ...]) -> str | None:
    """Returns why a job of this version must not run. It may without a backoff or a retention, but not unchecked."""
    if not any(problem.startswith("schema ") for problem in unreadable):
        return None
    return f"version {version} of {key!r} can't be read by this release: {'; '.join(unreadable)}"


def missing_definition(key: str, version: int) -> tuple[Definition, str]:
    """Returns a definition for a version that was deleted from the database, and why its jobs can't run."""
    name = key if 0 < len(key) <= 100 else "unknown"
    return Definition(name), f"version {version} of {key!r:.120} is not in the database any more"


def columns(definition: Definition) -> dict[str, Any]:
    return {
        "key": definition.key,
        "description": definition.description,
        "schema": None if definition.schema is None else orjson.dumps(definition.schema).decode(),
        "timeout": definition.timeout,
        "max_attempts": definition.max_attempts,
        "backoff": orjson.dumps(definition.backoff.as_json()).decode(),
        "priority": definition.priority,
        "retention": orjson.dumps(_retention_seconds(definition.retention)).decode(),
        "on_exhausted": definition.on_exhausted.value,
        "durable_claims": definition.durable_claims,
    }


def _schema(text: str | None) -> Mapping[str, Any] | None:
    if text is None:
        return None
    schema = orjson.loads(text)
    if not isinstance(schema, dict):
        raise TypeError("it is not an object")
    return schema


def _timeout(stored: timedelta) -> timedelta:
    """Reads a timeout. Ten years and 50 days are 3650 days to Postgres, which counts 360 days in a year, and more to
    Python.
    """
    if stored <= timedelta():
        raise ValueError("it is not longer than zero")
    return min(stored, LONGEST)


def _retention_seconds(retention: Retention) -> dict[str, str | None]:
    """Writes each length as an interval of Postgres: a plain decimal, since prune_after reads no 5e-05."""
    lengths: dict[str, timedelta | None] = asdict(retention)
    return {status: None if keep is None else f"{_decimal(keep)} seconds" for status, keep in lengths.items()}


def _decimal(length: timedelta) -> str:
    seconds = f"{length.days * 86_400 + length.seconds}.{length.microseconds:06}".rstrip("0")
    return seconds + "0" if seconds.endswith(".") else seconds


def _retention(stored: Mapping[str, str | None]) -> Retention:
    """Reads a retention. A time beyond the longest, as an earlier release took it, is read as the longest."""
    lengths = {status: None if text is None else _length(text) for status, text in stored.items()}
    return Retention(**lengths)


def _length(text: str) -> timedelta:
    return timedelta(seconds=min(float(text.removesuffix(" seconds")), LONGEST_RETENTION.total_seconds()))
