"""Records as JSON documents and as phrases for people.

Fields of a document have the names of the model; times are ISO 8601 in UTC, durations are seconds. `payload` and
`result` are the places through which every view shows a payload or a result: they are redacted there, as errors are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import orjson

from leasehold.config import process_redactor
from leasehold.errors import LeaseholdError
from leasehold.model.audit import AuditEntry
from leasehold.model.backoff import Exponential, Steps
from leasehold.model.cron import Cron
from leasehold.model.decision import Decision
from leasehold.model.definition import Change, Definition, Registered, Retention
from leasehold.model.duration import span
from leasehold.model.event import Event, Filter
from leasehold.model.event_plan import Emitted
from leasehold.model.explanation import Check, Explanation
from leasehold.model.hidden import escape_hidden
from leasehold.model.job import Attempt, JobRecord, LogLine
from leasehold.model.overrides import FieldOrigin
from leasehold.model.preview import Preview, Run
from leasehold.model.schedule import Every, schedule_as_json
from leasehold.model.secret_fields import hide_sealed
from leasehold.model.series import Histogram, Point, Series
from leasehold.model.status import DisplayState, Status
from leasehold.model.trigger import ALL, Trigger
from leasehold.operations.series import Chart
from leasehold.store import ErrorGroup, Operation, ScopeRecord, Subscription, TenantUsage, TriggerChange, WorkerRecord
from leasehold.store.operations import Plan, selection_document

# ------------------------------------------------------------------------------------------------------- documents


def job(record: JobRecord, held_by: Sequence[str] = ()) -> dict[str, Any]:
    """`status` is the stored one, `state` the one that people see, `held_by` why a ready job does not start."""
    seen = {"id": record.id, "tenant": record.tenant, "state": record.display.value, "held_by": list(held_by)}
    shown = {"payload": payload(record), "result": result(record), "last_error": _redact(record.last_error)}
    return seen | fields_of(record) | shown | {"tries": record.tries}


def payload(record: JobRecord) -> Any:
    """Returns the payload as every view shows it: without secrets."""
    return hide_sealed(process_redactor().document(record.payload))


def result(record: JobRecord) -> Any:
    """Returns the result as every view shows it: without secrets."""
    return process_redactor().document(record.result)


def attempt(record: Attempt, tries: int) -> dict[str, Any]:
    """`worker` is `host:pid:boot id`, `worker_id` the last part of it; `details` has the process of a command."""
    shown = {name: value for name, value in fields_of(record).items() if name not in ("host", "pid", "tries")}
    details = process_redactor().document(dict(record.details), names=False)
    redacted = {"error": _redact(record.error), "details": details}
    return shown | redacted | {"worker": record.worker_name, "worker_id": record.worker, "try": tries}


def line(attempt: int, tries: int, said: LogLine) -> dict[str, Any]:
    return {"attempt": attempt, "try": tries, **fields_of(said), "text": process_redactor().text(said.text)}


def explanation(explained: Explanation) -> dict[str, Any]:
    """`blocking` names the checks that keep the job from starting; `starts_at` is null if it is not known."""
    record = explained.job
    return {
        "id": record.id,
        "tenant": record.tenant,
        "definition": record.definition,
        "state": record.display.value,
        "at": explained.at,
        "summary": _redact(explained.summary),
        "blocking": [each.name for each in explained.blocking],
        "starts_at": explained.starts_at,
        "checks": [_check(each) for each in explained.checks],
    }


def _check(made: Check) -> dict[str, Any]:
    shown = fields_of(made) | {"state": made.state.value, "text": _redact(made.text)}
    return shown | {"evidence": process_redactor().document(dict(made.evidence), names=False)}


def _redact(text: str | None) -> str | None:
    return None if text is None else process_redactor().text(text)


def scope(record: ScopeRecord) -> dict[str, Any]:
    facts = {name: value for name, value in fields_of(record).items() if name != "scope"}
    return {"kind": record.scope.kind, "key": record.scope.key} | facts


def audit_entry(noted: AuditEntry) -> dict[str, Any]:
    """`before` and `after` have the values that differ, without secrets."""
    entry = noted.entry
    return {
        "id": noted.id,
        "at": noted.at,
        "action": entry.action,
        "subject": entry.subject,
        "tenant": entry.tenant,
        "actor": entry.actor.name,
        "token": entry.actor.token,
        "request": entry.actor.request,
        "before": entry.before,
        "after": entry.after,
    }


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
        "oldest_started_at": record.oldest_started_at,
        "listens": record.listens,
        "drains_since": record.drains_since,
    }


def definition(registered: Registered) -> dict[str, Any]:
    content = {
        field.name: field_value(getattr(registered.definition, field.name))
        for field in fields(Definition)
        if field.init
    }
    known = {"key": registered.definition.key, "version": registered.version, "active": registered.active} | content
    return known | {"unreadable": registered.unreadable} if registered.unreadable else known


def definition_details(registered: Registered, origins: Sequence[FieldOrigin]) -> dict[str, Any]:
    """`revision` counts the changes by administrators; `origins` has, by field, the value that a reset restores."""
    shown = definition(registered) | {"declared": registered.declared, "revision": registered.revision}
    return shown | {"origins": {each.field: _origin(each) for each in origins}}


def _origin(found: FieldOrigin) -> dict[str, Any]:
    if found.by is None:
        return {"origin": found.origin}
    return {"origin": found.origin, "by": found.by, "at": found.at, "base": field_value(found.base)}


def change(changed: Change) -> dict[str, Any]:
    """`overridden` has the fields that stay as an administrator has set them: [value of the code, value]."""
    return {
        "key": changed.key,
        "version": changed.version,
        "created": changed.created,
        "fields": _pairs(changed.fields),
        "overridden": _pairs(changed.overridden),
    }


def _pairs(fields: Mapping[str, tuple[Any, Any]]) -> dict[str, Any]:
    return {name: [field_value(old), field_value(new)] for name, (old, new) in fields.items()}


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
        "payload": process_redactor().document(rule.payload),
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
    return {**record.as_row(), "why": decision_reason(record), "at": record.at}


def decision_reason(record: Decision) -> str:
    """Returns why a trigger made no job, as every view shows it: without secrets of the event's data."""
    return process_redactor().text(record.why)


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


def error_group(group: ErrorGroup) -> dict[str, Any]:
    """`jobs` is counted up to a cap: `is_cap` tells whether there may be more."""
    return fields_of(group) | {"error": _redact(group.error)}


_NOT_SHOWN = frozenset({"where", "jobs", "as_of", "place", "pace"})


def operation(record: Operation) -> dict[str, Any]:
    """`total` is how many jobs matched when it was planned, counted up to a cap; `pace` is in jobs a second."""
    shown = {name: value for name, value in fields_of(record).items() if name not in _NOT_SHOWN}
    pace = None if record.pace is None else record.pace.jobs_per_second
    changed = {"filter": selection_document(record), "pace": pace, "details": dict(record.details)}
    return shown | changed | {"error": _redact(record.error)}


def plan(planned: Plan) -> dict[str, Any]:
    """`matching` is counted up to a cap: `is_cap` tells whether there may be more."""
    new = planned.operation
    return {
        "kind": new.kind.value,
        "tenant": new.tenant,
        "filter": selection_document(new),
        "pace": None if new.pace is None else new.pace.jobs_per_second,
        "canary": new.canary,
        "matching": planned.matching,
        "is_cap": planned.is_cap,
        "sample": list(planned.sample),
        "duplicates": planned.duplicates,
    }


def usage(used: TenantUsage) -> dict[str, Any]:
    return fields_of(used) | {"jobs": {status.value: used.jobs.get(status, 0) for status in Status}}


def rule_value(value: Any) -> Any:
    """Returns a field of a trigger's rule as JSON."""
    if isinstance(value, Cron | Every):
        return schedule_as_json(value)
    if isinstance(value, dict):  # a template of payloads
        return process_redactor().document(value)
    return value.as_json() if isinstance(value, Filter) else value


def error(raised: LeaseholdError) -> dict[str, Any]:
    return {"error": {"code": raised.code, "message": _redact(raised.happened), "fix": raised.fix}}


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
    return {name: getattr(record, name) for name in _names_of(record.__class__)}


@cache
def _names_of(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def chart(read: Chart) -> dict[str, Any]:
    """`rolled_to` is up to when the figures are complete; a step without jobs has zeros."""
    return {
        "since": read.window.since.isoformat(),
        "until": read.window.till.isoformat(),
        "step": read.window.step,
        "rolled_to": read.progress.minutes.isoformat(),
        "by": read.by.value,
        "series": [_series(each) for each in read.series],
        "others": None if read.others is None else _series(read.others),
    }


def _series(series: Series) -> dict[str, Any]:
    return {"key": series.key or None, "points": [_point(point) for point in series.points]}


def _point(point: Point) -> dict[str, Any]:
    return {
        "at": point.at.isoformat(),
        **point.counts,
        "depth": dict(point.depths),
        "wait": _percentiles(point.wait),
        "run": _percentiles(point.run),
    }


def _percentiles(histogram: Histogram) -> dict[str, Any]:
    return {"count": histogram.count, "p50": histogram.percentile(0.5), "p95": histogram.percentile(0.95)}


# --------------------------------------------------------------------------------------------------------- phrases


def format_count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def error_of(code: str | None, message: str | None) -> str:
    return ": ".join(part for part in (code, _redact(message)) if part)


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
