"""Records as JSON for machines: the names of the fields are those of the model, times are ISO 8601 in UTC."""

from dataclasses import fields
from datetime import timedelta
from typing import Any

import orjson

from leasehold.errors import LeaseholdError
from leasehold.model.backoff import Exponential, Steps
from leasehold.model.definition import Change, Definition, Registered, Retention
from leasehold.model.job import Attempt, JobRecord, Line
from leasehold.store import WorkerRecord


def job(record: JobRecord) -> dict[str, Any]:
    """`status` is what is stored, `state` what people see."""
    return {"id": record.id, "tenant": record.tenant, "state": record.display.value, **fields_of(record)}


def attempt(record: Attempt) -> dict[str, Any]:
    return fields_of(record)


def line(number: int, said: Line) -> dict[str, Any]:
    return {"attempt": number, **fields_of(said)}


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
    content = {field.name: field_value(getattr(registered.definition, field.name)) for field in fields(Definition)}
    return {"key": registered.definition.key, "version": registered.version, "active": registered.active} | content


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
