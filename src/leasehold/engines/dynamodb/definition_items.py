"""Definitions as items, and back."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import orjson

from leasehold.engines.dynamodb.wire import Item
from leasehold.model import overrides
from leasehold.model.bounds import LONGEST_RETENTION
from leasehold.model.definition import Definition, Registered, Retention
from leasehold.model.stored_definition import definition_values, read_definition

_MICROSECOND = timedelta(microseconds=1)


def content(definition: Definition) -> dict[str, Any]:
    """Returns the attributes that a version of a definition has."""
    kept: dict[str, timedelta | None] = asdict(definition.retention)
    retention = {status: None if keep is None else keep // _MICROSECOND for status, keep in kept.items()}
    return definition_values(definition, definition.timeout // _MICROSECOND, retention)


def read(item: Item) -> tuple[Definition, tuple[str, ...]]:
    """Reads a definition, with defaults where this release can't read it. Also returns what it could not read."""
    return read_definition(item, _length, _retention)


def read_registered(item: Item) -> Registered:
    definition, unreadable = read(item)
    found, problems = overrides.from_json(orjson.loads(item.get("overrides") or "{}"))
    return Registered(
        definition,
        item["version"],
        item["active"],
        (*unreadable, *problems),
        found,
        item.get("revision") or 0,
        item.get("base"),
        item.get("declared", True),
    )


def _retention(stored: Mapping[str, int | None]) -> Retention:
    kept = {status: None if keep is None else _length(keep) for status, keep in stored.items()}
    return Retention(**{status: keep and min(keep, LONGEST_RETENTION) for status, keep in kept.items()})


def _length(microseconds: int) -> timedelta:
    return timedelta(microseconds=microseconds)
