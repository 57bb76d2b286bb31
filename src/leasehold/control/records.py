"""Reads records from the documents of a server.

A field that a newer server adds is ignored. A value that this release does not know raises SchemaMismatch.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from pydantic import TypeAdapter, ValidationError

from leasehold.errors import InvalidInput, SchemaMismatch
from leasehold.model.audit import Actor, AuditEntry, NewEntry
from leasehold.model.decision import Decision
from leasehold.model.event import Event
from leasehold.model.event_plan import Emitted
from leasehold.model.explanation import Check, Explanation
from leasehold.model.job import Attempt, JobRecord, LogLine
from leasehold.model.limits import Pause, Scope
from leasehold.model.operation import Pace
from leasehold.model.preview import Mark, Preview, Run
from leasehold.model.schedule import Every
from leasehold.model.token import TokenRecord
from leasehold.model.trigger import ALL, Origin, Trigger, TriggerId
from leasehold.model.trigger_document import rule_from_document
from leasehold.model.zone import ClockChange, zone
from leasehold.operations.jobs import NumberedLine
from leasehold.store import NewOperation, Operation, ScopeRecord, Subscription, TenantUsage, WorkerFacts, WorkerRecord
from leasehold.store.operations import Plan, read_selection

P = ParamSpec("P")
T = TypeVar("T")
Document = Mapping[str, Any]

_NAMES = {"tenant_id": "tenant", "definition_key": "definition"}


def unreadable(why: object) -> SchemaMismatch:
    return SchemaMismatch(
        f"the answer of the server can't be read by this release: {why!s:.300}",
        fix="Use the release of leasehold that the server has. A change that was asked for may have been made.",
        code="LH-2002",
    )


def reader(read: Callable[P, T]) -> Callable[P, T]:
    """Turns every failure to read a document into SchemaMismatch."""

    @wraps(read)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return read(*args, **kwargs)
        except ValidationError as error:
            first = error.errors()[0]
            raise unreadable(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
        except (KeyError, TypeError, ValueError, InvalidInput) as error:
            raise unreadable(repr(error)) from error

    return checked


_adapters: dict[Any, TypeAdapter[Any]] = {}


def _read(kind: type[T], document: Document) -> T:
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    read: T = _adapters[kind].validate_python({_NAMES.get(name, name): value for name, value in document.items()})
    return read


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


# --------------------------------------------------------------------------------------------------------------- jobs


@reader
def job(document: Document) -> JobRecord:
    return _read(JobRecord, document)


@reader
def attempt(document: Document) -> Attempt:
    """Reads an attempt; `worker` of a document is host:pid:id, without host and pid if they are not known."""
    worker = document["worker_id"]
    name = (document["worker"] or "").removesuffix(f":{worker}")
    host, _, pid = name.rpartition(":") if name != worker else ("", "", "")
    own = {"worker": worker, "host": host or None, "pid": pid or None, "tries": document["try"]}
    details = document["details"] or {}  # null for a token that may not read logs
    return _read(Attempt, {**document, **own, "details": details})


@reader
def line(document: Document) -> NumberedLine:
    return document["attempt"], document["try"], _read(LogLine, document)


@reader
def explanation(record: JobRecord, document: Document) -> Explanation:
    at = datetime.fromisoformat(document["at"])
    return Explanation(record, at, [_read(Check, each) for each in document["checks"]])


# --------------------------------------------------------------------------------------------------------- operations


@reader
def operation(document: Document) -> Operation:
    pace = None if document["pace"] is None else Pace(document["pace"])
    return _read(Operation, {**document, **read_selection(document["filter"]), "pace": pace, "place": None})


@reader
def plan(new: NewOperation, document: Document) -> Plan:
    return Plan(
        new, int(document["matching"]), bool(document["is_cap"]), list(document["sample"]), document["duplicates"]
    )


# ------------------------------------------------------------------------------------------------ triggers and events


@reader
def trigger(document: Document) -> Trigger:
    event = document["event_name"]
    schedule = document["schedule"] or ({} if event is not None else _unread_schedule())
    rule = rule_from_document(
        {
            "label": document["label"],
            "definition": document["definition_key"],
            **({} if event is None else {"event": event, "filter": document["filter"] or {}}),
            **schedule,
            "payload_template": document["payload_template"] or {},
            "enabled": document["is_enabled"],
            "catch_up": document["catch_up"],
            "catch_up_cap": document["catch_up_cap"],
            "spread": timedelta(seconds=document["spread"]),
            "dedupe_window": timedelta(seconds=document["dedupe_window_seconds"]),
            "trailing": document["trailing"],
        }
    )
    paused = document["paused"]
    return Trigger(
        id=TriggerId(document["id"]),
        tenant=ALL if document["all_tenants"] else document["tenant_id"],
        rule=rule,
        origin=Origin(document["origin"]),
        version=document["version"],
        created_by=document["created_by"],
        created_at=datetime.fromisoformat(document["created_at"]),
        updated_at=datetime.fromisoformat(document["updated_at"]),
        pause=None if paused is None else Pause(paused["why"], _moment(paused["until"])),
        last_at=_moment(document["last_at"]),
        next_at=_moment(document["next_at"]),
        unreadable=document["unreadable"],
    )


def _unread_schedule() -> Document:
    """Stands for a schedule that the server can't read: `unreadable` of the trigger says so."""
    return {"every": Every("1d").interval.total_seconds()}


@reader
def preview(document: Document, own_zone: str, viewer_zone: str) -> Preview:
    """Reads a preview. Moments are shown in zones with their names; a document has only the offset."""

    def run(each: Document) -> Run:
        at = datetime.fromisoformat(each["at"]).astimezone(UTC)
        marks = tuple(_read(Mark, mark) for mark in each["marks"])
        return Run(at, at.astimezone(zone(own_zone)), at.astimezone(zone(viewer_zone)), marks)

    change = document["clock_change"]
    return Preview(
        tuple(map(run, document["runs"])),
        None if change is None else _read(ClockChange, change),
        tuple(map(run, document["around"])),
    )


@reader
def decision(document: Document) -> Decision:
    return _read(Decision, document)


@reader
def event(document: Document) -> Event:
    return _read(Event, {**document, "data": document["data"] or {}})


@reader
def emitted(document: Document) -> Emitted:
    decisions = [_read(Decision, each) for each in document["decisions"]]
    return _read(Emitted, {**document, "decisions": decisions, "definitions": dict.fromkeys(document["jobs"], "")})


# ----------------------------------------------------------------------------------------------------- administration


@reader
def audit_entry(document: Document) -> AuditEntry:
    actor = Actor(document["actor"], document["token"], document["request"])
    names = ("action", "subject", "tenant", "before", "after")
    noted = NewEntry(actor=actor, **{name: document[name] for name in names})
    return AuditEntry(document["id"], datetime.fromisoformat(document["at"]), noted)


@reader
def scope(document: Document) -> ScopeRecord:
    return _read(ScopeRecord, {**document, "scope": _read(Scope, document)})


@reader
def worker(document: Document) -> WorkerRecord:
    facts, serves = _read(WorkerFacts, document), _read(Subscription, document)
    return _read(WorkerRecord, {**document, "facts": facts, "serves": serves})


@reader
def usage(document: Document) -> TenantUsage:
    return _read(TenantUsage, document)


@reader
def token(document: Document) -> TokenRecord:
    """Reads a token. A server tells no hash, so an empty one stands for the live secrets of a token."""
    return _read(TokenRecord, {**document, "hashes": (b"",) if document["state"] == "live" else ()})
