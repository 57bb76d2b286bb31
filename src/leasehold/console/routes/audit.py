"""The audit log: what people and tools have changed."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from leasehold.api import shown
from leasehold.console.pages import Pages, Visit
from leasehold.errors import InvalidInput
from leasehold.model.access import Permission
from leasehold.model.audit import AuditEntry
from leasehold.model.job import tenant_id
from leasehold.operations import audit, views
from leasehold.store import AuditFilter

pages = Pages()
LIMIT = 50
LONGEST_VALUE = 80
# Beyond so many, the values that a change has written are folded up.
SHOWN_CHANGES = 6
ACTIONS = (
    *(
        "job.retry",
        "job.cancel",
        "job.run_now",
        "tenant.pause",
        "tenant.resume",
        "tenant.limit",
        "definition.override",
    ),
    *(
        "trigger.create",
        "trigger.change",
        "trigger.delete",
        "trigger.restore",
        "token.create",
        "token.revoke",
        "console.sign_in",
    ),
)
_JOB = re.compile(r"job ([0-9a-f-]{36})")
_TRIGGER = re.compile(r"trigger ([0-9a-f-]{36})")
_FIELDS = ("action", "tenant", "after", "before")


@dataclass(frozen=True, slots=True)
class ValueChange:
    """A value before and after; None where it was not there."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class EntryRow:
    noted: AuditEntry
    changes: Sequence[ValueChange]
    href: str | None
    hidden: Sequence[str]


@pages.add("GET", "/audit", Permission.AUDIT_READ)
async def list_entries(visit: Visit) -> Response:
    """Lists changes, the newest first. Filters and page are in the address."""
    asked = {name: visit.request.query_params.get(name, "").strip()[:100] for name in _FIELDS}
    cursor = visit.request.query_params.get("cursor") or None
    problem, rows, following = None, [], None
    try:
        where = _filter(visit, asked)
        page = await visit.context.ask(lambda store: audit.entries(store, where, cursor, LIMIT))
        rows, following = [_row(visit, each) for each in page.entries], page.next
    except InvalidInput as error:
        problem = error
    kept = {name: value for name, value in asked.items() if value}
    path = f"{visit.area.base}/audit"
    facts = {
        "rows": rows,
        "asked": asked if problem else asked | {name: _as_field(asked[name]) for name in ("after", "before")},
        "problem": problem,
        "actions": ACTIONS,
        "shown_changes": SHOWN_CHANGES,
        "is_filtered": bool(kept),
        "is_first": cursor is None,
        "newest": f"{path}?{urlencode(kept)}" if kept else path,
        "older": None if following is None else f"{path}?{urlencode({**kept, 'cursor': following})}",
    }
    return await visit.show("audit.html", "audit", facts, status=422 if problem else 200)


def _filter(visit: Visit, asked: Mapping[str, str]) -> AuditFilter:
    named = tenant_id(asked["tenant"]) if asked["tenant"] else None
    tenant = visit.area.tenant or named
    return AuditFilter(tenant, asked["action"] or None, _moment(asked["after"]), _moment(asked["before"]))


def _moment(text: str) -> datetime | None:
    """Reads a moment as a browser sends it, in UTC unless it names an offset. Raises InvalidInput."""
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInput(
            f"{text!r} is not a time. Nothing was read.", fix="Write it as 2030-01-31T09:00."
        ) from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _as_field(text: str) -> str:
    """Writes a moment as the field of a form takes it."""
    found = _moment(text)
    return "" if found is None else found.astimezone(UTC).strftime("%Y-%m-%dT%H:%M")


def _row(visit: Visit, noted: AuditEntry) -> EntryRow:
    document = shown.audit_entry(visit.context, noted)
    before, after = document["before"] or {}, document["after"] or {}
    changes = [
        ValueChange(name, _text(before, name), _text(after, name))
        for name in {**before, **after}
        if before.get(name) is not None or after.get(name) is not None
    ]
    return EntryRow(noted, changes, _href(visit, noted), document["hidden"])


def _href(visit: Visit, noted: AuditEntry) -> str | None:
    """Returns the address of the job that was changed, or of the page that restores a deleted trigger."""
    base, entry = visit.area.base, noted.entry
    whose = (
        f"?{urlencode({'tenant': entry.tenant})}" if entry.tenant is not None and visit.area.tenant is None else ""
    )
    if entry.tenant is not None and (found := _JOB.fullmatch(entry.subject)):
        return f"{base}/jobs/{found[1]}{whose}"
    if entry.action == "trigger.delete" and (found := _TRIGGER.fullmatch(entry.subject)):
        return f"{base}/triggers/{found[1]}/restore{whose}" if visit.may(Permission.TRIGGERS_WRITE) else None
    return None


def _text(values: Mapping[str, Any], name: str) -> str | None:
    if values.get(name) is None:
        return None
    value = values[name]
    text = views.printable(value if isinstance(value, str) else views.as_json(value).decode())
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"
