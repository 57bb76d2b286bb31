"""Records as JSON documents and as phrases for people.

Fields of a document have the names of the model; times are ISO 8601 in UTC, durations are seconds. `payload` and
`result` are the places through which every view shows a payload or a result: they are redacted there, as errors are.
"""

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any

import orjson

from leasehold.config import process_redactor
from leasehold.errors import LeaseholdError
from leasehold.model.backoff import Exponential, Steps
from leasehold.model.cron import Cron
from leasehold.model.decision import Decision
from leasehold.model.definition import Change, Definition, Registered, Retention
from leasehold.model.event import Event, Filter
from leasehold.model.event_plan import Emitted
from leasehold.model.hidden import escape_hidden
from leasehold.model.job import Attempt, JobRecord, LogLine
from leasehold.model.preview import Preview, Run
from leasehold.model.schedule import Every, schedule_as_json
from leasehold.model.secret_fields import hide_sealed
from leasehold.model.status import DisplayState
from leasehold.model.trigger import ALL, Trigger
from leasehold.store import ScopeRecord, Subscription, TriggerChange, WorkerRecord

# ------------------------------------------------------------------------------------------------------- documents


def job(record: JobRecord, held_by: Sequence[str] = ()) -> dict[str, Any]:
    """`status` is the stored one, `state` the one that people see, `held_by` why a ready job does not start."""
    seen = {"id": record.id, "tenant": record.tenant, "state": record.display.value, "held_by": list(held_by)}
    shown = {"payload": payload(record), "result": result(record), "last_error": _redacted(record.last_error)}
    return seen | fields_of(record) | shown | {"tries": record.tries}


def payload(record: JobRecord) -> Any:
    """Returns the payload as every view shows it: without secrets."""
    return hide_sealed(process_redactor().document(record.payload))


def result(record: JobRecord) -> Any:
    """Returns the result as every view shows it: without secrets."""
    return process_redactor().document(record.result)


def attempt(record: Attempt, tries: int) -> dict[str, Any]:
    """`worker` is `host:pid:boot id`, `worker_id` the last part of it; `details` has the process of a command."""
    shown = {name: value for name, value in fields_of(record).items() if name not in ("host", "pid")}
    details = process_redactor().document(dict(record.details), names=False)
    redacted = {"error": _redacted(record.error), "details": details}
    return shown | redacted | {"worker": record.worker_name, "worker_id": record.worker, "try": tries}


def line(attempt: int, tries: int, said: LogLine) -> dict[str, Any]:
    return {"attempt": attempt, "try": tries, **fields_of(said), "text": process_redactor().text(said.text)}


def _redacted(text: str | None) -> str | None:
    return None if text is None else process_redactor().text(text)


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


def trigger(record: Trigger) -> dict[str, Any]:
    """`schedule` is {"cron", "zone"} or {"every", "anchor"}; `next_at` is when a scheduler looks at it next."""
    rule, pause = record.rule, record.pause
    schedule = None if "schedule" in record.unreadable else rule.schedule
    return {
        "id": record.id,
        "tenant": None if record.tenant is ALL else record.tenant,
        "all_tenants": record.tenant is ALL,
        "label": rule.label,
        "definition": rule.definition,
        "kind": rule.kind.value,
        "event": rule.event,
        "filter": rule.filter.as_json() if rule.event is not None else None,
        "schedule": None if schedule is None else schedule_as_json(schedule),
        "payload": rule.payload,
        "enabled": rule.enabled,
        "catch_up": rule.catch_up.value,
        "catch_up_cap": rule.catch_up_cap,
        "spread": rule.spread,
        "dedupe_window": rule.window,
        "trailing": rule.trailing,
        "origin": record.origin.value,
        "version": record.version,
        "paused": None if pause is None else {"why": pause.why, "until": pause.until},
        "last_at": record.last_at,
        "next_at": record.next_at,
        "created_by": record.created_by,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "unreadable": dict(record.unreadable),
    }


def decision(record: Decision) -> dict[str, Any]:
    return {**record.as_row(), "at": record.at}


def event(record: Event) -> dict[str, Any]:
    """`expanded_at` is null until its triggers have decided about it."""
    return fields_of(record) | {"data": process_redactor().document(record.data)}


def emitted(answer: Emitted) -> dict[str, Any]:
    return {
        "id": answer.id,
        "tenant": answer.tenant,
        "name": answer.name,
        "expanded": answer.expanded,
        "created": answer.created,
        "jobs": answer.jobs,
        "decisions": [decision(each) for each in answer.decisions],
    }


def preview(shown: Preview) -> dict[str, Any]:
    """Runs have the moment in UTC, and local times as text with their offset."""
    change = shown.change
    return {
        "runs": [_run(each) for each in shown.runs],
        "clock_change": None if change is None else {"at": change.at, "before": change.before, "after": change.after},
        "around": [_run(each) for each in shown.around],
    }


def _run(run: Run) -> dict[str, Any]:
    return {
        "at": run.at,
        "local": run.local.isoformat(),
        "viewer": run.viewer.isoformat(),
        "marks": [{"kind": mark.kind.value, "note": mark.note} for mark in run.marks],
    }


def trigger_change(changed: TriggerChange) -> dict[str, Any]:
    return {
        "trigger": changed.id,
        "tenant": None if changed.tenant is ALL else changed.tenant,
        "label": changed.label,
        "version": changed.version,
        "created": changed.created,
        "removed": changed.removed,
        "fields": {name: [rule_value(old), rule_value(new)] for name, (old, new) in changed.fields.items()},
    }


def rule_value(value: Any) -> Any:
    """Returns a field of a trigger's rule as JSON."""
    if isinstance(value, Cron | Every):
        return schedule_as_json(value)
    return value.as_json() if isinstance(value, Filter) else value


def error(raised: LeaseholdError) -> dict[str, Any]:
    return {"error": {"code": raised.code, "message": _redacted(raised.happened), "fix": raised.fix}}


def field_value(value: Any) -> Any:
    """Returns a field of a definition as JSON."""
    if isinstance(value, Exponential | Steps):
        return value.as_json()
    return fields_of(value) if isinstance(value, Retention) else value


def as_json(document: object, *, indented: bool = False) -> bytes:
    """Encodes a document, durations as seconds."""
    option = orjson.OPT_UTC_Z | (orjson.OPT_INDENT_2 if indented else 0)
    return orjson.dumps(document, default=_seconds, option=option)


def _seconds(value: Any) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    raise TypeError(f"{type(value).__name__} has no JSON")


def fields_of(record: Any) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in fields(record)}


# --------------------------------------------------------------------------------------------------------- phrases


def format_count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


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


def error_of(code: str | None, message: str | None) -> str:
    return ": ".join(part for part in (code, _redacted(message)) if part)


def first_line(text: str) -> str:
    first, _, rest = text.strip().partition("\n")
    return f"{first} …" if rest.strip() else first


def describe_subscription(serves: Subscription) -> str:
    """Returns the definitions, and the tenants if the worker does not serve all of them."""
    tenants = "" if serves.tenants is None else f" for {', '.join(map(visible, serves.tenants)) or 'no tenant'}"
    return ", ".join(serves.definitions) + tenants


def why(job: JobRecord, now: datetime, held_by: Sequence[str] = ()) -> str:
    """Returns one line that explains the state of a job; `held_by` are the reasons why a ready job does not start."""
    error = first_line(error_of(job.last_error_code, job.last_error))
    match job.display:
        case DisplayState.SCHEDULED:
            return f"due in {span(job.scheduled_for - now)}"
        case DisplayState.RETRYING:
            return f"due in {span(job.scheduled_for - now)}" + (f", after {error}" if error else "")
        case DisplayState.READY:
            return ("; ".join(held_by) or "waits for a free slot") + (f", after {error}" if error else "")
        case DisplayState.RUNNING if job.started_at:
            asked = ", asked to stop" if job.cancel_requested_at else ""
            return f"for {span(now - job.started_at)}{asked}"
        case DisplayState.SUCCEEDED if job.started_at and job.finished_at:
            return f"took {span(job.finished_at - job.started_at)}"
    return error


def printable(text: str) -> str:
    """Replaces control characters by pictures: a log line must not move a terminal's cursor, or set its title."""
    return text.translate(_PICTURES)


def visible(name: str) -> str:
    """Writes hidden characters of an id or a key as \\u200b, line breaks among them."""
    return escape_hidden(printable(name))


_PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"} | {
    0x7F: 0x2421,
    **dict.fromkeys(range(0x80, 0xA0), 0xFFFD),
}
