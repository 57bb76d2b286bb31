"""JSON documents of what workers ask and get, for engines that reach the store by messages; and their readers.

Writers make documents of plain JSON values; readers raise InvalidInput with the field and the reason. Durations are
seconds. Payloads, results and details are JSON texts, as they are stored: their numbers are not changed on the way.
A request names a claim by its fence without the worker, which the request has once. An answer names claims of its
request by their places in it, from 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from leasehold.model.backoff import backoff_from_json
from leasehold.model.bounds import EARLIEST, LATEST, MAX_INTEGER, problems_of_text
from leasehold.model.definition import Change, Definition, OnExhausted, Retention
from leasehold.model.job import Attempt, Claim, JobId, LineKind, LogLine, TenantId, WorkerId, job_id, stored_tenant_id
from leasehold.model.outcome import SHOWN_ERROR, Verdict
from leasehold.model.payload import make_storable
from leasehold.model.status import AttemptStatus, Status
from leasehold.store.abilities import Abilities
from leasehold.store.field_reader import (
    FieldReader,
    read_integer,
    read_list,
    read_mapping,
    read_number,
    read_seconds,
    read_text,
)
from leasehold.store.fleet import Claimed, DueWork, NextFire, Registration, Renewal, Subscription, Wake, WorkerFacts

LONGEST_LINE = 10_000
MAX_BATCH = 2**53
Document = dict[str, Any]


class Fence(NamedTuple):
    """A claim as a request names it."""

    tenant: TenantId
    job: JobId
    attempt: int
    batch: int


def fence_of(claim: Claim) -> Fence:
    return Fence(claim.tenant, claim.job, claim.attempt, claim.batch)


def write_join(serves: Subscription, facts: WorkerFacts, lease: timedelta) -> Document:
    return {
        "definitions": list(serves.definitions),
        "tenants": None if serves.tenants is None else list(serves.tenants),
        "host": facts.host,
        "pid": facts.pid,
        "version": facts.version,
        "slots": facts.slots,
        "metadata": dict(facts.metadata),
        "lease_seconds": lease.total_seconds(),
    }


def read_join(document: Any) -> tuple[Subscription, WorkerFacts, timedelta]:
    read = FieldReader("join", document)
    serves = Subscription(read.texts("definitions"), read.optional("tenants", _tenants))
    facts = WorkerFacts(
        read.text("host"),
        read.integer("pid", 0),
        read.text("version"),
        read.integer("slots", 1),
        read.optional("metadata", _metadata) or {},
    )
    return serves, facts, read.duration("lease_seconds")


def write_registration(registration: Registration) -> Document:
    serves = registration.serves
    return {
        "worker_id": registration.worker,
        "definitions": list(serves.definitions),
        "tenants": None if serves.tenants is None else list(serves.tenants),
    }


def read_registration(document: Any) -> Registration:
    read = FieldReader("registration", document)
    serves = Subscription(read.texts("definitions"), read.optional("tenants", _tenants))
    return Registration(WorkerId(read.text("worker_id")), serves)


def read_lease(seconds: float) -> timedelta:
    return FieldReader("lease", {"lease_seconds": seconds}).duration("lease_seconds")


def write_renewal(renewal: Renewal, named: Sequence[Fence], unknown: frozenset[Fence]) -> Document:
    """Writes a renewal for a worker that reclaims nothing and fires nothing: the server does both."""
    return {
        "alive": renewal.alive,
        "lost": _places(named, unknown.union(map(fence_of, renewal.lost))),
        "cancels": _places(named, frozenset(map(fence_of, renewal.cancels))),
        "strays": renewal.strays,
        "next_due_seconds": _seconds(renewal.next_due),
        "work_waits": renewal.work_waits,
    }


def read_renewal(document: Any, held: Sequence[Claim]) -> Renewal:
    read = FieldReader("renewal", document)
    return Renewal(
        alive=read.truth("alive"),
        lost=read.chosen("lost", held),
        cancels=read.chosen("cancels", held),
        orphans=False,
        strays=read.truth("strays"),
        next_due=read.optional("next_due_seconds", read_seconds),
        work_waits=read.truth("work_waits"),
    )


def write_abilities(abilities: Abilities) -> Document:
    return asdict(abilities)


def read_abilities(document: Any) -> Abilities:
    """Reads abilities; one that the other side does not know is missing."""
    read = FieldReader("abilities", document)
    return Abilities(**{each.name: bool(read.optional(each.name, bool)) for each in fields(Abilities)})


def write_fence(claim: Claim) -> Document:
    return {"tenant_id": claim.tenant, "job_id": claim.job, "attempt": claim.attempt, "batch": claim.batch}


def read_fence(document: Any) -> Fence:
    read = FieldReader("claim", document)
    return Fence(
        read.value("tenant_id", stored_tenant_id),
        read.value("job_id", job_id),
        read.integer("attempt", 1),
        read.integer("batch", 0, MAX_BATCH),
    )


def write_claimed(claimed: Claimed) -> Document:
    """Writes each definition once, however many claims have it."""
    kinds = list({id(claim.definition): claim.definition for claim in claimed.claims}.values())
    places = {id(definition): place for place, definition in enumerate(kinds)}
    return {
        "claims": [_write_claim(claim, places[id(claim.definition)]) for claim in claimed.claims],
        "definitions": [write_definition(each) for each in kinds],
        "more": claimed.more,
        "next_due_seconds": _seconds(claimed.next_due),
    }


def _write_claim(claim: Claim, definition: int) -> Document:
    written = write_fence(claim) | {
        "definition": definition,
        "version": claim.version,
        "payload": claim.payload,
        "max_attempts": claim.max_attempts,
        "free_attempts": claim.free_attempts,
        "queued": _timestamp(claim.queued),
        "started": _timestamp(claim.started),
        "correlation_id": claim.correlation_id,
        "cancel_requested": claim.cancel_requested,
        "overdue": claim.overdue,
        "priority": claim.priority,
        "unusable": claim.unusable,
    }
    if claim.trace_context is not None:
        written["trace_context"] = claim.trace_context
    return written


def read_claimed(document: Any, worker: WorkerId) -> Claimed:
    read = FieldReader("answer to a claim", document)
    kinds = [read_definition(each) for each in read.list("definitions")]
    claims = [_read_claim(each, worker, kinds) for each in read.list("claims")]
    return Claimed(claims, read.truth("more"), read.optional("next_due_seconds", read_seconds))


def _read_claim(document: Any, worker: WorkerId, kinds: Sequence[Definition]) -> Claim:
    read, fence = FieldReader("claim", document), read_fence(document)
    return Claim(
        *(fence.tenant, fence.job, fence.attempt, worker, fence.batch),
        definition=kinds[read.integer("definition", 0, len(kinds) - 1)],
        version=read.integer("version", 0),
        payload=read.text("payload", None),
        max_attempts=read.integer("max_attempts", -MAX_INTEGER),
        free_attempts=read.integer("free_attempts", -MAX_INTEGER),
        queued=read.number("queued"),
        started=read.number("started"),
        correlation_id=read.optional("correlation_id", str),
        cancel_requested=read.truth("cancel_requested"),
        overdue=read.truth("overdue"),
        priority=read.integer("priority", -MAX_INTEGER),
        unusable=read.optional("unusable", str),
        trace_context=read.optional("trace_context", str),
    )


def write_verdict(verdict: Verdict) -> Document:
    written: Document = {"status": verdict.status.value, "attempt": verdict.attempt.value}
    if verdict.delay:
        written["delay_seconds"] = verdict.delay.total_seconds()
    if verdict.free_attempts:
        written["free_attempts"] = verdict.free_attempts
    for name in ("error", "error_code"):
        if (text := getattr(verdict, name)) is not None:
            written[name] = make_storable(text, SHOWN_ERROR)
    for name in ("result", "exit_code", "details"):
        if (value := getattr(verdict, name)) is not None:
            written[name] = value
    return written


def read_verdict(document: Any) -> Verdict:
    """Reads a verdict; `verdict_rules.require_possible` tells whether its claim can have it."""
    read = FieldReader("verdict", document)
    return Verdict(
        read.value("status", Status),
        read.value("attempt", AttemptStatus),
        read.optional("delay_seconds", read_seconds) or timedelta(),
        read.optional("free_attempts", read_integer) or 0,
        result=read.optional("result", read_text),
        error=read.optional("error", read_text),
        error_code=read.optional("error_code", read_text),
        exit_code=read.optional("exit_code", read_integer),
        details=read.optional("details", read_text),
    )


def write_line(claim: Claim, line: LogLine) -> Document:
    return write_fence(claim) | {
        "number": line.number,
        "text": make_storable(line.text, LONGEST_LINE),
        "kind": line.kind.value,
        "progress": line.progress and min(1.0, max(0.0, line.progress)),
    }


def read_line(document: Any) -> LogLine:
    read = FieldReader("line", document)
    return LogLine(
        read.integer("number", 0),
        read.text("text", LONGEST_LINE),
        read.value("kind", LineKind),
        read.optional("progress", _share),
    )


def write_attempt(attempt: Attempt) -> Document:
    ended = attempt.finished_at
    return {
        "number": attempt.number,
        "status": attempt.status.value,
        "started_at": attempt.started_at.isoformat(),
        "finished_at": None if ended is None else ended.isoformat(),
    }


def read_attempt(document: Any, worker: WorkerId) -> Attempt:
    """Reads an attempt of this worker."""
    read = FieldReader("attempt", document)
    began, ended = (
        read.value("started_at", datetime.fromisoformat),
        read.optional("finished_at", datetime.fromisoformat),
    )
    return Attempt(read.integer("number", 1), read.value("status", AttemptStatus), worker, began, ended)


def write_refused(named: Sequence[Fence], refused: frozenset[Fence]) -> Document:
    return {"refused": _places(named, refused)}


def read_refused(document: Any, sent: Sequence[Claim]) -> frozenset[Claim]:
    return FieldReader("answer", document).chosen("refused", sent)


def write_wake(wake: Wake | DueWork, waited: timedelta = timedelta()) -> Document:
    """Writes a wake that came `waited` ago."""
    if isinstance(wake, DueWork):
        wait = max(timedelta(), wake.wait - waited).total_seconds()
        return {"kind": "due", "definition": wake.definition, "wait_seconds": wait}
    return {"kind": wake.value}


def read_wake(document: Any) -> Wake | DueWork | NextFire:
    """Reads a wake; one of an unknown kind is WORK, since a newer server may have sent it."""
    read = FieldReader("wake", document)
    kind = read.text("kind")
    if kind == "due":
        return DueWork(read.text("definition"), read.duration("wait_seconds"))
    return Wake(kind) if kind in set(Wake) else Wake.WORK


def write_definition(definition: Definition) -> Document:
    kept: Mapping[str, timedelta | None] = asdict(definition.retention)
    return {
        "key": definition.key,
        "description": definition.description,
        "schema": definition.schema,
        "timeout_seconds": definition.timeout.total_seconds(),
        "max_attempts": definition.max_attempts,
        "backoff": definition.backoff.as_json(),
        "priority": definition.priority,
        "retention_seconds": {status: _seconds(length) for status, length in kept.items()},
        "on_exhausted": definition.on_exhausted.value,
        "durable_claims": definition.durable_claims,
    }


def read_definition(document: Any) -> Definition:
    read = FieldReader("definition", document)
    kept = read.value("retention_seconds", read_mapping)
    return Definition(
        key=read.text("key"),
        description=read.text("description", None),
        schema=read.optional("schema", read_mapping),
        timeout=read.duration("timeout_seconds"),
        max_attempts=read.integer("max_attempts", 1),
        backoff=read.value("backoff", lambda value: backoff_from_json(read_mapping(value))),
        priority=read.integer("priority", -MAX_INTEGER),
        retention=Retention(**{status: None if length is None else _kept(length) for status, length in kept.items()}),
        on_exhausted=read.value("on_exhausted", OnExhausted),
        durable_claims=read.truth("durable_claims"),
    )


def write_change(change: Change) -> Document:
    """Writes the values of changed fields as people read them."""
    changed = {name: [str(before), str(after)] for name, (before, after) in change.fields.items()}
    return {"key": change.key, "version": change.version, "fields": changed, "created": change.created}


def read_change(document: Any) -> Change:
    read = FieldReader("change", document)
    changed = {name: (pair[0], pair[1]) for name, pair in read.value("fields", read_mapping).items()}
    return Change(read.text("key"), read.integer("version", 0), changed, read.truth("created"))


def _places(named: Sequence[Fence], chosen: frozenset[Fence]) -> list[int]:
    return [place for place, fence in enumerate(named) if fence in chosen]


def _seconds(length: timedelta | None) -> float | None:
    return None if length is None else length.total_seconds()


def _timestamp(seconds: float) -> float:
    """Returns the nearest moment that JSON can hold: the table may contain `infinity`."""
    return min(max(seconds, EARLIEST.timestamp()), LATEST.timestamp())


def _tenants(value: Any) -> tuple[TenantId, ...]:
    return tuple(stored_tenant_id(each) for each in read_list(value))


def _metadata(value: Any) -> Mapping[str, str]:
    found = {name: read_text(text) for name, text in read_mapping(value).items()}
    if problems := [problem for pair in found.items() for part in pair for problem in problems_of_text("it", part)]:
        raise ValueError(problems[0])
    return found


def _kept(value: Any) -> timedelta:
    return timedelta(seconds=read_number(value))


def _share(value: Any) -> float:
    share = read_number(value)
    if not 0 <= share <= 1:
        raise ValueError("it is not between 0 and 1")
    return share
