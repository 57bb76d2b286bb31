"""Rows of triggers and their decisions to values of the model, and back."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import orjson
from asyncpg import Record

from leasehold.errors import InvalidInput
from leasehold.model.bounds import LONGEST
from leasehold.model.cron import Cron
from leasehold.model.event import NO_FILTER, read_filter
from leasehold.model.fire_plan import FanOut
from leasehold.model.job import TenantId
from leasehold.model.limits import Pause
from leasehold.model.schedule import Cursor, Every, Schedule
from leasehold.model.trigger import ALL, AllTenants, NewTrigger, Origin, Trigger, TriggerId

FOR_ALL = ""
"""The tenant that is stored for a trigger of all tenants; no tenant has an empty id."""
UNREADABLE_LABEL, UNREADABLE_EVENT, UNREADABLE_SCHEDULE = "unreadable", "unreadable", Every(LONGEST)
"""These stand for what this release can't read."""


def stored_tenant(tenant: TenantId | AllTenants) -> str:
    return FOR_ALL if tenant is ALL else tenant


def columns(rule: NewTrigger) -> dict[str, Any]:
    """Returns the parameters that hold a rule."""
    return {
        "label": rule.label,
        "enabled": rule.enabled,
        "kind": rule.kind.value,
        "event_name": rule.event,
        "event_filter": None if rule.event is None else orjson.dumps(rule.filter.as_json()).decode(),
        "dedupe_window": None if rule.event is None else rule.window,
        "trailing_run": rule.trailing,
        "definition": rule.definition,
        "payload_template": orjson.dumps(dict(rule.payload)).decode(),
        **_schedule_columns(rule),
    }


def _schedule_columns(rule: NewTrigger) -> dict[str, Any]:
    schedule, is_schedule = rule.schedule, rule.schedule is not None
    return {
        "cron": schedule.text if isinstance(schedule, Cron) else None,
        "every": schedule.interval if isinstance(schedule, Every) else None,
        "anchor": schedule.anchor if isinstance(schedule, Every) else None,
        "zone": None if schedule is None else schedule.zone,
        "catch_up": rule.catch_up.value if is_schedule else None,
        "catch_up_cap": rule.catch_up_cap if is_schedule else None,
        "spread": rule.spread if is_schedule else None,
    }


def trigger(row: Record) -> Trigger:
    """Reads a trigger. Raises InvalidInput for a rule that this release can't use."""
    return _trigger(row, _rule(row), {})


def shown(row: Record) -> Trigger:
    """Reads a trigger, with stand-ins for what this release can't read, so that people can repair or remove it."""
    try:
        return trigger(row)
    except InvalidInput as error:
        rule, unreadable = _rule_with_stand_ins(row)
        return _trigger(row, rule, unreadable or {"rule": error.happened})


def _trigger(row: Record, rule: NewTrigger, unreadable: Mapping[str, str]) -> Trigger:
    return Trigger(
        id=TriggerId(str(row["id"])),
        tenant=tenant(row),
        rule=rule,
        origin=Origin(row["origin"]),
        version=row["version"],
        created_by=row["created_by"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        deleted_at=row["deleted_at"],
        pause=None if row["paused_at"] is None else Pause(row["pause_reason"], row["paused_until"]),
        cursor=cursor(row),
        last_at=row["last_fire_at"],
        next_at=row["next_fire_at"],
        unreadable=unreadable,
    )


def tenant(row: Record) -> TenantId | AllTenants:
    return ALL if row["tenant_id"] == FOR_ALL else TenantId(row["tenant_id"])


def cursor(row: Record) -> Cursor | None:
    return None if row["cursor_at"] is None else Cursor(row["cursor_at"], row["cursor_local"])


def fan_out(row: Record) -> FanOut | None:
    return None if row["fan_out_at"] is None else FanOut(row["fan_out_at"], row["fan_out_after"] or FOR_ALL)


def _rule(row: Record) -> NewTrigger:
    return NewTrigger(**{name: read() for name, read in _fields(row).items()})


def _rule_with_stand_ins(row: Record) -> tuple[NewTrigger, dict[str, str]]:
    """Returns the rule with all fields that can be read, and why the others can't."""
    is_event = row["kind"] == "event"
    stand_in: dict[str, Any] = {"event": UNREADABLE_EVENT} if is_event else {"schedule": UNREADABLE_SCHEDULE}
    rule, unreadable = NewTrigger(label=UNREADABLE_LABEL, definition=row["definition"], **stand_in), {}
    for name, read in _fields(row).items():
        try:
            rule = replace(rule, **{name: read()})
        except InvalidInput as error:
            unreadable[name] = error.happened
    return rule, unreadable


def _fields(row: Record) -> dict[str, Callable[[], Any]]:
    """Returns the fields of a rule by name, each as a function that reads it; `trailing` needs its window."""
    shared: dict[str, Callable[[], Any]] = {
        "label": lambda: row["label"],
        "definition": lambda: row["definition"],
        "enabled": lambda: row["enabled"],
    }
    if row["kind"] == "event":
        return shared | {
            "event": lambda: row["event_name"],
            "payload": lambda: orjson.loads(row["payload_template"]),
            "filter": lambda: read_filter(orjson.loads(row["event_filter"])) if row["event_filter"] else NO_FILTER,
            "dedupe_window": lambda: row["dedupe_window"],
            "trailing": lambda: row["trailing_run"],
        }
    return shared | {
        "schedule": lambda: _schedule(row),
        "payload": lambda: orjson.loads(row["payload_template"]),
        "catch_up": lambda: row["catch_up"],
        "catch_up_cap": lambda: row["catch_up_cap"],
        "spread": lambda: row["spread"],
    }


def _schedule(row: Record) -> Schedule:
    return Cron(row["cron"], row["zone"]) if row["cron"] is not None else Every(row["every"], row["anchor"])
