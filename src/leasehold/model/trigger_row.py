"""Triggers as stores keep them, and as documents that people write.

A row has plain columns: text, numbers, moments, and JSON text for `filter` and `payload_template`. A document is the
JSON of an API call or a file; it accepts the other spellings of the columns, like `cron_expr` for `cron`.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any

from leasehold.errors import InvalidInput
from leasehold.model import payload as payloads
from leasehold.model.bounds import describe
from leasehold.model.cron import Cron
from leasehold.model.event import read_filter
from leasehold.model.job import TenantId, stored_tenant_id
from leasehold.model.limits import Pause
from leasehold.model.schedule import DEFAULT_CAP, EPOCH, CatchUp, Cursor, Every, Schedule
from leasehold.model.trigger import ALL, AllTenants, NewTrigger, Origin, Trigger, trigger_id


def rule_as_row(rule: NewTrigger) -> dict[str, Any]:
    """Returns the columns of a rule."""
    cron = rule.schedule if isinstance(rule.schedule, Cron) else None
    every = rule.schedule if isinstance(rule.schedule, Every) else None
    return {
        "label": rule.label,
        "definition": rule.definition,
        "kind": rule.kind.value,
        "event": rule.event,
        "filter": payloads.encode_plain(rule.filter.as_json()),
        "cron": cron.text if cron else None,
        "zone": cron.zone if cron else None,
        "every_seconds": int(every.interval.total_seconds()) if every else None,
        "anchor": every.anchor if every else None,
        "catch_up": rule.catch_up.value,
        "catch_up_cap": rule.catch_up_cap,
        "spread_seconds": int(rule.spread.total_seconds()),
        "payload_template": payloads.encode_plain(rule.payload),
        "enabled": rule.enabled,
        "dedupe_window_seconds": int(rule.window.total_seconds()),
        "trailing": rule.trailing,
    }


def rule_from_row(row: Mapping[str, Any]) -> NewTrigger:
    """Returns the rule of a row; raises InvalidInput for one that this release can't use."""
    return NewTrigger(
        label=row["label"],
        definition=row["definition"],
        event=row["event"],
        filter=read_filter(_parsed(row["filter"])),
        schedule=_schedule_from(row),
        payload=_parsed(row["payload_template"]),
        enabled=row["enabled"],
        catch_up=row["catch_up"],
        catch_up_cap=row["catch_up_cap"],
        spread=timedelta(seconds=row["spread_seconds"]),
        dedupe_window=timedelta(seconds=row["dedupe_window_seconds"]),
        trailing=row["trailing"],
    )


def trigger_as_row(trigger: Trigger) -> dict[str, Any]:
    """Returns the columns of a trigger. The tenant of a trigger of all tenants is None."""
    return {
        "id": trigger.id,
        "tenant": None if trigger.tenant is ALL else trigger.tenant,
        **rule_as_row(trigger.rule),
        "origin": trigger.origin.value,
        "version": trigger.version,
        "created_by": trigger.created_by,
        "created_at": trigger.created_at,
        "updated_at": trigger.updated_at,
        "deleted_at": trigger.deleted_at,
        "pause_reason": None if trigger.pause is None else trigger.pause.why,
        "paused_until": None if trigger.pause is None else trigger.pause.until,
        "cursor_at": None if trigger.cursor is None else trigger.cursor.at,
        "cursor_local": None if trigger.cursor is None else trigger.cursor.local,
        "next_at": trigger.next_at,
    }


def trigger_from_row(row: Mapping[str, Any]) -> Trigger:
    """Returns a stored trigger. A row is paused if it has a `pause_reason`, which may be empty.

    Raises InvalidInput for a row that this release can't use, for example because its zone is not in tzdata any more.
    A scheduler records that as an error of this trigger and goes on with the others.
    """
    return Trigger(
        id=trigger_id(row["id"]),
        tenant=_tenant_from(row["tenant"]),
        rule=rule_from_row(row),
        origin=Origin(row["origin"]),
        version=row["version"],
        created_by=row["created_by"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        deleted_at=row["deleted_at"],
        pause=None if row["pause_reason"] is None else Pause(row["pause_reason"], row["paused_until"]),
        cursor=None if row["cursor_at"] is None else Cursor(row["cursor_at"], row["cursor_local"]),
        next_at=row["next_at"],
    )


_SPELLINGS = {
    "trigger_type": "kind",
    "event_name": "event",
    "cron_expr": "cron",
    "timezone": "zone",
    "definition_key": "definition",
    "payload": "payload_template",
    "dedupe_window_seconds": "dedupe_window",
    "is_enabled": "enabled",
}
_KNOWN = (
    "label",
    "kind",
    "event",
    "filter",
    "cron",
    "zone",
    "every",
    "anchor",
    "definition",
    "payload_template",
    "enabled",
    "catch_up",
    "catch_up_cap",
    "spread",
    "dedupe_window",
    "trailing",
)


def rule_from_document(document: Any) -> NewTrigger:
    """Returns the rule of a JSON document; raises InvalidInput with the field that is unknown, missing or unfit."""
    if not isinstance(document, Mapping):
        raise _refused(f"{describe(document)} is not a mapping")
    given: dict[str, Any] = {}
    for name, value in document.items():
        known = _SPELLINGS.get(name, name)
        if known not in _KNOWN:
            near = get_close_matches(str(name), [*_KNOWN, *_SPELLINGS], n=1)
            raise _refused(f"{describe(name)} is not a field{f'; did you mean {near[0]}?' if near else ''}")
        if known in given:
            raise _refused(f"{known} is given twice, also as {name}")
        given[known] = value
    if missing := [name for name in ("label", "definition") if name not in given]:
        raise _refused(f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")
    rule = NewTrigger(
        label=given["label"],
        definition=given["definition"],
        event=given.get("event"),
        filter=read_filter(given.get("filter", {})),
        schedule=_schedule_of(given),
        payload=given.get("payload_template", {}),
        enabled=given.get("enabled", True),
        catch_up=given.get("catch_up", CatchUp.LATEST),
        catch_up_cap=given.get("catch_up_cap", DEFAULT_CAP),
        spread=given.get("spread", timedelta()),
        dedupe_window=given.get("dedupe_window"),
        trailing=given.get("trailing", False),
    )
    if given.get("kind", rule.kind) != rule.kind:
        raise _refused(f"its kind {describe(given['kind'])} is not that of its fields, {rule.kind.value}")
    return rule


def rule_as_document(rule: NewTrigger) -> dict[str, Any]:
    """Returns the rule as a document that `rule_from_document` reads."""
    row = rule_as_row(rule)
    anchor = row["anchor"]
    return {
        "label": row["label"],
        "kind": row["kind"],
        **({"event": row["event"], "filter": rule.filter.as_json()} if rule.event else {}),
        **({"cron": row["cron"], "zone": row["zone"]} if row["cron"] else {}),
        **({"every": row["every_seconds"], "anchor": anchor.isoformat()} if anchor else {}),
        "definition": row["definition"],
        "payload_template": dict(rule.payload),
        "enabled": row["enabled"],
        "catch_up": row["catch_up"],
        "catch_up_cap": row["catch_up_cap"],
        "spread": row["spread_seconds"],
        "dedupe_window": row["dedupe_window_seconds"],
        "trailing": row["trailing"],
    }


def _schedule_from(row: Mapping[str, Any]) -> Schedule | None:
    if row["cron"] is not None:
        return Cron(row["cron"], row["zone"])
    return None if row["every_seconds"] is None else Every(row["every_seconds"], row["anchor"])


def _schedule_of(given: Mapping[str, Any]) -> Schedule | None:
    cron, every = given.get("cron"), given.get("every")
    if cron is not None and every is not None:
        raise _refused("it has both cron and every")
    if every is None and given.get("anchor") is not None:
        raise _refused("anchor is for every")
    if cron is None and given.get("zone") is not None:
        raise _refused("zone is for cron")
    if cron is not None:
        if given.get("zone") is None:
            raise _refused('a cron needs a zone, like "Europe/Berlin" or "UTC"')
        return Cron(cron, given["zone"])
    return None if every is None else Every(every, _anchor(given.get("anchor")))


def _anchor(value: Any) -> datetime:
    if value is None:
        return EPOCH
    try:
        return value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise _refused(f"anchor={describe(value)} is not a moment, like 2027-01-01T00:00:00Z") from error


def _tenant_from(value: str | None) -> TenantId | AllTenants:
    return ALL if value is None else stored_tenant_id(value)


def _parsed(value: Any) -> Any:
    return payloads.decode(value) if isinstance(value, str) else value


def _refused(why: str) -> InvalidInput:
    return InvalidInput(f"The trigger can't be used: {why}.", fix="Nothing was changed. Correct the document.")
