"""Rows of triggers and their decisions to values of the model, and back."""

from collections.abc import Mapping
from typing import Any

import orjson
from asyncpg import Record

from leasehold.model.cron import Cron
from leasehold.model.event import NO_FILTER, read_filter
from leasehold.model.fire_plan import FanOut
from leasehold.model.job import TenantId
from leasehold.model.limits import Pause
from leasehold.model.schedule import Cursor, Every, Schedule
from leasehold.model.trigger import ALL, AllTenants, NewTrigger, Origin, Trigger, TriggerId

FOR_ALL = ""
"""The tenant that is stored for a trigger of all tenants; no tenant has an empty id."""


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
    return Trigger(
        id=TriggerId(str(row["id"])),
        tenant=tenant(row),
        rule=_rule(row),
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
    )


def tenant(row: Record) -> TenantId | AllTenants:
    return ALL if row["tenant_id"] == FOR_ALL else TenantId(row["tenant_id"])


def cursor(row: Record) -> Cursor | None:
    return None if row["cursor_at"] is None else Cursor(row["cursor_at"], row["cursor_local"])


def fan_out(row: Record) -> FanOut | None:
    return None if row["fan_out_at"] is None else FanOut(row["fan_out_at"], row["fan_out_after"] or FOR_ALL)


def _rule(row: Record) -> NewTrigger:
    shared: Mapping[str, Any] = {
        "label": row["label"],
        "definition": row["definition"],
        "payload": orjson.loads(row["payload_template"]),
        "enabled": row["enabled"],
    }
    if row["kind"] == "event":
        return NewTrigger(
            **shared,
            event=row["event_name"],
            filter=read_filter(orjson.loads(row["event_filter"])) if row["event_filter"] else NO_FILTER,
            dedupe_window=row["dedupe_window"],
            trailing=row["trailing_run"],
        )
    return NewTrigger(
        **shared,
        schedule=_schedule(row),
        catch_up=row["catch_up"],
        catch_up_cap=row["catch_up_cap"],
        spread=row["spread"],
    )


def _schedule(row: Record) -> Schedule:
    return Cron(row["cron"], row["zone"]) if row["cron"] is not None else Every(row["every"], row["anchor"])
