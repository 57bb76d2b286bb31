"""Items of triggers and their decisions, and back.

    PK                             SK
    tenant#<tenant>#triggers       trigger#<id>                 a trigger
                                   version                      counts changes, for caches of event triggers
    tenant#<owner>#trigger#<id>    event#<moment>#<event>       a decision about an event
                                   fire#<fire time>#<tenant>    a decision about a fire time

Keys of triggers for all tenants begin with `all-tenants` instead of `tenant#<tenant>`. The key of a decision is its
cause: a trigger decides once about each event, and once about each fire time and tenant. A schedule that fires is in
the due index, under a partition of its own. All triggers are in the listing index.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import orjson

from leasehold.config import process_redactor
from leasehold.engines.dynamodb.keys import Key, due_sk, read_timestamp, timestamp
from leasehold.engines.dynamodb.wire import Item
from leasehold.errors import InvalidInput
from leasehold.model.bounds import LONGEST
from leasehold.model.cron import Cron
from leasehold.model.decision import Decision, decision_from_row
from leasehold.model.event import EventId
from leasehold.model.fire_plan import FanOut, look_at
from leasehold.model.job import JobId, TenantId
from leasehold.model.limits import Pause
from leasehold.model.schedule import Cursor, Every
from leasehold.model.trigger import ALL, AllTenants, NewTrigger, Origin, Trigger, TriggerId
from leasehold.model.trigger_document import rule_as_document, rule_from_document
from leasehold.model.zone import tzdata_version

FOR_ALL = ""
"""The tenant that is stored for a trigger of all tenants; no tenant has an empty id."""
TRIGGER = "trigger#"
VERSION = "version"
LISTED = "triggers"
"""The partition of all triggers in the listing index."""
DUE_SCHEDULES = "schedules"
"""The partition of schedules in the due index. Jobs have partitions that begin with `job`."""
KEPT = timedelta(days=30)
"""Decisions are kept for so long."""
_UNREADABLE = Every(LONGEST)


def owner_pk(tenant: TenantId | AllTenants) -> str:
    return "all-tenants#triggers" if tenant is ALL else f"tenant#{tenant}#triggers"


def trigger_key(tenant: TenantId | AllTenants, trigger: TriggerId) -> Key:
    return owner_pk(tenant), f"{TRIGGER}{trigger}"


def version_key(tenant: TenantId | AllTenants) -> Key:
    return owner_pk(tenant), VERSION


def decisions_pk(tenant: TenantId | AllTenants, trigger: TriggerId) -> str:
    return f"all-tenants#trigger#{trigger}" if tenant is ALL else f"tenant#{tenant}#trigger#{trigger}"


# ---------------------------------------------------------------------------------------------------------- triggers


def new_item(
    tenant: TenantId | AllTenants,
    trigger: TriggerId,
    rule: NewTrigger,
    origin: Origin,
    created_by: str | None,
    now: datetime,
) -> Item:
    pk, sk = trigger_key(tenant, trigger)
    return {
        "PK": pk,
        "SK": sk,
        "id": trigger,
        "tenant_id": FOR_ALL if tenant is ALL else tenant,
        "origin": origin.value,
        "version": 1,
        "changes": 1,
        "created_by": created_by,
        "created_at": timestamp(now),
        "updated_at": timestamp(now),
        "list_pk": LISTED,
        "list_sk": trigger,
        **rule_attributes(rule),
    }


def rule_attributes(rule: NewTrigger) -> Item:
    """Returns the attributes that hold a rule. Those beside the document are for looks that don't read it."""
    return {
        "label": rule.label,
        "definition": rule.definition,
        "kind": rule.kind.value,
        "event": rule.event,
        "enabled": rule.enabled,
        "rule": orjson.dumps(rule_as_document(rule)).decode(),
    }


def place_attributes(
    trigger: TriggerId, rule: NewTrigger, cursor: Cursor | None, next_at: datetime | None
) -> dict[str, Any]:
    """Returns the attributes of a schedule's place: its cursor, and when schedulers look at it. None removes one."""
    return {
        "cursor_at": cursor and timestamp(cursor.at),
        "cursor_local": cursor and cursor.local,
        "tzdata": tzdata_version() if isinstance(rule.schedule, Cron) else None,
        **look_attributes(trigger, next_at),
    }


def look_attributes(trigger: TriggerId, next_at: datetime | None) -> dict[str, Any]:
    return {
        "next_fire_at": next_at and timestamp(next_at),
        "due_pk": DUE_SCHEDULES if next_at else None,
        "due_sk": due_sk(next_at, JobId(trigger)) if next_at else None,
    }


def pause_attributes(pause: Pause | None, now: datetime) -> dict[str, Any]:
    return {
        "paused_at": pause and timestamp(now),
        "paused_until": pause and pause.until and timestamp(pause.until),
        "pause_reason": pause and pause.why,
    }


def begin_at(rule: NewTrigger, cursor: Cursor | None, pause: Pause | None) -> datetime | None:
    return None if cursor is None else look_at(rule, cursor, pause)


def trigger(item: Item) -> Trigger:
    """Reads a trigger. Raises InvalidInput for a rule that this release can't use."""
    return _trigger(item, rule_from_document(orjson.loads(item["rule"])), {})


def shown(item: Item) -> Trigger:
    """Reads a trigger, with a stand-in for a rule that this release can't read: people can repair or remove it."""
    try:
        return trigger(item)
    except InvalidInput as error:
        named = {"label": item["label"], "definition": item["definition"]}
        stand_in = NewTrigger(**named, **({"event": "unreadable"} if item["kind"] == "event" else _EVERY))
        return _trigger(item, stand_in, {"schedule" if item["kind"] == "schedule" else "rule": error.happened})


_EVERY: dict[str, Any] = {"schedule": _UNREADABLE}


def _trigger(item: Item, rule: NewTrigger, unreadable: Mapping[str, str]) -> Trigger:
    return Trigger(
        id=TriggerId(item["id"]),
        tenant=owner(item),
        rule=rule,
        origin=Origin(item["origin"]),
        version=item["version"],
        created_by=item.get("created_by"),
        created_at=read_timestamp(item["created_at"]),
        updated_at=read_timestamp(item["updated_at"]),
        deleted_at=moment(item, "deleted_at"),
        pause=pause_of(item),
        cursor=cursor_of(item),
        last_at=moment(item, "last_fire_at"),
        next_at=moment(item, "next_fire_at"),
        unreadable=unreadable,
    )


def owner(item: Item) -> TenantId | AllTenants:
    return ALL if item["tenant_id"] == FOR_ALL else TenantId(item["tenant_id"])


def moment(item: Item, name: str) -> datetime | None:
    return read_timestamp(item[name]) if item.get(name) else None


def pause_of(item: Item) -> Pause | None:
    return Pause(item["pause_reason"], moment(item, "paused_until")) if item.get("paused_at") else None


def cursor_of(item: Item) -> Cursor | None:
    at = moment(item, "cursor_at")
    return None if at is None else Cursor(at, item.get("cursor_local"))


def fan_out_of(item: Item) -> FanOut | None:
    at = moment(item, "fan_out_at")
    return None if at is None else FanOut(at, item.get("fan_out_after") or FOR_ALL)


def is_deleted(item: Item) -> bool:
    return bool(item.get("deleted_at"))


# --------------------------------------------------------------------------------------------------------- decisions


def event_sk(at: datetime, event: EventId) -> str:
    return f"event#{timestamp(at)}#{event}"


def fire_sk(fire_at: datetime, tenant: TenantId) -> str:
    return f"fire#{timestamp(fire_at)}#{tenant}"


def decision_item(owner: TenantId | AllTenants, decision: Decision, now: datetime, sk: str) -> Item:
    row = decision.as_row() | {"why": decision.recorded_why(process_redactor().text)}
    fire_at = row.pop("fire_at")
    return {
        "PK": decisions_pk(owner, decision.trigger),
        "SK": sk,
        **{name: value for name, value in row.items() if value is not None},
        "fire_at": fire_at and timestamp(fire_at),
        "at": timestamp(now),
        "ttl": int((now + KEPT).timestamp()),
    }


def read_decision(item: Item) -> Decision:
    names = ("trigger", "tenant", "kind", "event", "job", "reason", "why", "count")
    row = {name: item.get(name) for name in names}
    return decision_from_row({**row, "fire_at": moment(item, "fire_at"), "at": moment(item, "at")})
