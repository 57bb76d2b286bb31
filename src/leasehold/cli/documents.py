"""Records as JSON for machines: the names of the fields are those of the model, times are ISO 8601 in UTC."""

from collections.abc import Sequence
from dataclasses import fields
from datetime import timedelta
from typing import Any

import orjson

from leasehold.errors import LeaseholdError
from leasehold.model.backoff import Exponential, Steps
from leasehold.model.definition import Change, Definition, Registered, Retention
from leasehold.model.job import Attempt, JobRecord, LogLine
from leasehold.store import ScopeRecord, WorkerRecord


def job(record: JobRecord, held_by: Sequence[str] = ()) -> dict[str, Any]:
    """`status` is what is stored, `state` what people see, `held_by` why a ready job does not start."""
    seen = {"id": record.id, "tenant": record.tenant, "state": record.display.value, "held_by": list(held_by)}
    return seen | fields_of(record) | {"tries": record.tries}


def attempt(record: Attempt, tries: int) -> dict[str, Any]:
    return fields_of(record) | {"try": tries}


def line(attempt: int, tries: int, said: LogLine) -> dict[str, Any]:
    return {"attempt": attempt, "try": tries, **fields_of(said)}


def scope(record: ScopeRecord) -> dict[str, Any]:
    facts = {name: value for name, value in fields_of(record).items() if name != "scope"}
    return {"kind": record.scope.kind, "key": record.scope.key} | facts


def worker(record: WorkerRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        **fields_of(record.facts),
        "definitions": record.serves.definitions,
        "tenants": record.serves.tenants,
        "running": record.running,
        "started_at": record.started_at,
        "last_seen_at": record.last_seen_at,
        "lease_expires_at": record.lease_expires_at,
    }


def definition(registered: Registered) -> dict[str, Any]:
    content = {
        field.name: field_value(getattr(registered.definition, field.name))
        for field in fields(Definition)
        if field.init
    }
    known = {"key": registered.definition.key, "version": registered.version, "active": registered.active} | content
    return known | {"unreadable": registered.unreadable} if registered.unreadable else known


def change(changed: Change) -> dict[str, Any]:
    return {
        "key": changed.key,
        "version": changed.version,
        "created": changed.created,
        "fields": {name: [field_value(old), field_value(new)] for name, (old, new) in changed.fields.items()},
    }


def error(raised: LeaseholdError) -> dict[str, Any]:
    return {"error": {"code": raised.code, "message": raised.happened, "fix": raised.fix}}


def field_value(value: Any) -> Any:
    """A backoff says itself how it is written, and a retention is its fields."""
    if isinstance(value, Exponential | Steps):
        return value.as_json()
    return fields_of(value) if isinstance(value, Retention) else value


def as_json(document: object, *, indented: bool = False) -> bytes:
    """Durations are seconds."""
    option = orjson.OPT_UTC_Z | (orjson.OPT_INDENT_2 if indented else 0)
    return orjson.dumps(document, default=_seconds, option=option)


def _seconds(value: Any) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    raise TypeError(f"{type(value).__name__} has no JSON")


def fields_of(record: Any) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in fields(record)}
