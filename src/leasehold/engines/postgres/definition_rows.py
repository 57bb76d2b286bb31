"""Definitions as rows, and back."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import orjson
from asyncpg import Record

from leasehold.model import overrides
from leasehold.model.bounds import LONGEST_RETENTION
from leasehold.model.definition import Definition, Registered, Retention
from leasehold.model.stored_definition import definition_values, read_definition


def read_registered(row: Record) -> Registered:
    definition, unreadable = read(row)
    found, problems = overrides.from_json(orjson.loads(row["overrides"]))
    return Registered(
        definition,
        row["version"],
        row["active"],
        (*unreadable, *problems),
        found,
        row["revision"],
        row["base"],
        row["declared"],
    )


def read(row: Record) -> tuple[Definition, tuple[str, ...]]:
    """Reads a definition, with defaults where this release can't read it. Also returns what it could not read."""
    return read_definition(row, lambda length: length, lambda text: _retention(orjson.loads(text)))


def columns(definition: Definition) -> dict[str, Any]:
    retention = orjson.dumps(_retention_seconds(definition.retention)).decode()
    return definition_values(definition, definition.timeout, retention)


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
