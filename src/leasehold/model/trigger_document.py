"""Triggers as documents that people write: the JSON of an API call or a file.

A document accepts the other spellings of its fields, like `cron_expr` for `cron`.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any

from leasehold.errors import InvalidInput
from leasehold.model.bounds import describe
from leasehold.model.cron import Cron
from leasehold.model.event import read_filter
from leasehold.model.schedule import DEFAULT_CAP, EPOCH, CatchUp, Every, Schedule, schedule_as_json
from leasehold.model.trigger import NewTrigger

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


_OF_SCHEDULES = ("cron", "zone", "every", "anchor")
_OF_EVENTS = ("event", "filter")


def changed_rule(rule: NewTrigger, document: Mapping[str, Any]) -> NewTrigger:
    """Returns the rule with the fields of a document, which has only those that change. Raises InvalidInput.

    A null takes a field away. A trigger stays of its kind: an interval may take the place of a cron.
    """
    changes = {_SPELLINGS.get(name, name): value for name, value in document.items()}
    before = rule_as_document(rule)
    if changes.get("every") is not None:
        before = {name: value for name, value in before.items() if name not in ("cron", "zone", "anchor")}
    elif changes.get("cron") is not None:
        before = {name: value for name, value in before.items() if name not in ("every", "anchor")}
    if rule.event is not None and (unfit := sorted(changes.keys() & set(_OF_SCHEDULES))):
        raise _refused(f"{unfit[0]} is of schedules, and this trigger fires on an event")
    if rule.event is None and (unfit := sorted(changes.keys() & set(_OF_EVENTS))):
        raise _refused(f"{unfit[0]} is of events, and this trigger has a schedule")
    merged = before | changes
    return rule_from_document({name: value for name, value in merged.items() if value is not None})


def rule_as_document(rule: NewTrigger) -> dict[str, Any]:
    """Returns the rule as a document that `rule_from_document` reads."""
    return {
        "label": rule.label,
        "kind": rule.kind.value,
        **({"event": rule.event, "filter": rule.filter.as_json()} if rule.event else {}),
        **({} if rule.schedule is None else schedule_as_json(rule.schedule)),
        "definition": rule.definition,
        "payload_template": dict(rule.payload),
        "enabled": rule.enabled,
        "catch_up": rule.catch_up.value,
        "catch_up_cap": rule.catch_up_cap,
        "spread": int(rule.spread.total_seconds()),
        "dedupe_window": int(rule.window.total_seconds()),
        "trailing": rule.trailing,
    }


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


def _refused(why: str) -> InvalidInput:
    return InvalidInput(f"The trigger can't be used: {why}.", fix="Nothing was changed. Correct the document.")
