"""Records as documents of the API: the views of operations/, with the field names of requests, and without the
fields that a principal may not read.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from leasehold.api.context import Context
from leasehold.model.access import Permission
from leasehold.model.audit import AuditEntry
from leasehold.model.job import Attempt, JobRecord
from leasehold.model.trigger import Trigger
from leasehold.operations import views
from leasehold.store import ErrorGroup

_JOB = {"tenant": "tenant_id", "definition": "definition_key"}
_TRIGGER = {
    **_JOB,
    "kind": "trigger_type",
    "event": "event_name",
    "payload": "payload_template",
    "enabled": "is_enabled",
    "dedupe_window": "dedupe_window_seconds",
}
_PAYLOADS_OF_TRIGGERS = ("payload", "filter")


def _rename(document: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in document.items()}


def _hide(context: Context, permission: Permission, document: dict[str, Any], *names: str) -> dict[str, Any]:
    if context.may(permission):
        return document | {"hidden": document.get("hidden", [])}
    return document | dict.fromkeys(names) | {"hidden": [*document.get("hidden", []), *names]}


def job(context: Context, record: JobRecord, held_by: Sequence[str] = ()) -> dict[str, Any]:
    document = _rename(views.job(record, held_by), _JOB)
    document = _hide(context, Permission.PAYLOADS_READ, document, "payload", "result")
    return _hide(context, Permission.LOGS_READ, document, "last_error")


def error_group(context: Context, group: ErrorGroup) -> dict[str, Any]:
    return _hide(context, Permission.LOGS_READ, _rename(views.error_group(group), _JOB), "error")


def attempt(context: Context, record: Attempt) -> dict[str, Any]:
    return _hide(context, Permission.LOGS_READ, views.attempt(record, record.tries or 0), "details", "error")


def trigger(context: Context, record: Trigger) -> dict[str, Any]:
    document = _rename(views.trigger(record), _TRIGGER)
    schedule = document.get("schedule") or {}
    seed = {"cron_expr": schedule.get("cron"), "timezone": schedule.get("zone"), "every": schedule.get("every")}
    return _hide(context, Permission.PAYLOADS_READ, document | seed, "payload_template", "filter")


def event(context: Context, document: Mapping[str, Any]) -> dict[str, Any]:
    return _hide(context, Permission.PAYLOADS_READ, _rename(document, _JOB), "data")


def audit_entry(context: Context, noted: AuditEntry) -> dict[str, Any]:
    """Returns an entry. Templates and filters of triggers are payloads, before their change and after it."""
    document = views.audit_entry(noted) | {"hidden": []}
    if context.may(Permission.PAYLOADS_READ) or not noted.entry.action.startswith("trigger."):
        return document
    values = [document[each] for each in ("before", "after") if document[each]]
    names = [name for name in _PAYLOADS_OF_TRIGGERS if any(name in each for each in values)]
    kept = {
        each: document[each] and {name: value for name, value in document[each].items() if name not in names}
        for each in ("before", "after")
    }
    return document | kept | {"hidden": names}


def with_ids(document: Mapping[str, Any]) -> dict[str, Any]:
    return _rename(document, _JOB)
