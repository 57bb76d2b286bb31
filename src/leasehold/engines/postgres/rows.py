"""Rows to values of the model, and back."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from datetime import timedelta
from functools import lru_cache
from typing import Any

from asyncpg import Record

from leasehold.model.bounds import EARLIEST, LATEST
from leasehold.model.definition import Definition
from leasehold.model.job import Attempt, Claim, JobId, JobRecord, LineKind, LogLine, TenantId, WorkerId
from leasehold.model.limits import Scope, ScopeKind
from leasehold.model.outcome import Verdict
from leasehold.model.status import AttemptStatus, Status
from leasehold.model.stored_values import read_json, read_object, read_source
from leasehold.store import (
    ErrorGroup,
    ErrorGroups,
    Registration,
    ScopeRecord,
    Subscription,
    WorkerFacts,
    WorkerRecord,
)
from leasehold.store.error_groups import latest_first

DefinitionKey = tuple[str, int]


# The fields of a claim without its worker: claim_columns.sql has them in this order, with names of its own. A row is
# read by places in 0.1 µs, by names in 0.4.
NOT_IN_CLAIM_COLUMNS = {"worker", "unusable"}
CLAIM_COLUMNS = len(fields(Claim)) - len(NOT_IN_CLAIM_COLUMNS)


def claim(row: Record, worker: WorkerId, definition: Definition) -> Claim:
    """Makes a claim of a row that begins with the columns of claim_columns.sql."""
    tenant, job, attempt, batch, _key, *rest = row[:CLAIM_COLUMNS]
    return Claim(tenant, job, attempt, worker, batch, definition, *rest)


def subscription_columns(registration: Registration) -> dict[str, Any]:
    """Returns the parameters that say which jobs a statement may look at."""
    return {"definitions": registration.serves.definitions, "tenants": registration.serves.tenants}


def fences(claims: Iterable[Claim]) -> dict[str, list[Any]]:
    """Returns the parameters that every fenced statement takes."""
    held = list(claims)
    return {
        "tenants": [claim.tenant for claim in held],
        "jobs": [claim.job for claim in held],
        "attempts": [claim.attempt for claim in held],
        "batches": [claim.batch for claim in held],
    }


def fence(row: Record) -> tuple[str, str, int, str, int]:
    return row["tenant_id"], str(row["id"]), row["attempt"], str(row["worker_id"]), row["claim_batch"]


def fence_of(claim: Claim) -> tuple[str, str, int, str, int]:
    return claim.tenant, claim.job, claim.attempt, claim.worker, claim.batch


def endings(done: Sequence[tuple[Claim, Verdict]]) -> dict[str, Any]:
    """Returns the parameters of finish.sql: what all verdicts share once, other values in arrays."""
    claims, verdicts = zip(*done, strict=True)
    return {
        "jobs": _literal([claim.job for claim in claims]),
        **_share("tenant", "tenants", [claim.tenant for claim in claims], _quote),
        **_share("attempt", "attempts", [claim.attempt for claim in claims], str),
        **_share("worker", "workers", [claim.worker for claim in claims], str),
        **_share("batch", "batches", [claim.batch for claim in claims], str),
        **_share("status", "statuses", [verdict.status for verdict in verdicts], str),
        **_share("attempt_status", "attempt_statuses", [verdict.attempt for verdict in verdicts], str),
        **_share("keep", "keeps", list(_keeps(done)), lambda keep: keep or "null"),
        "results": _unless_all_null([verdict.result for verdict in verdicts]),
        "errors": _unless_all_null([verdict.error for verdict in verdicts]),
        "error_codes": _unless_all_null([verdict.error_code for verdict in verdicts]),
        "exit_codes": _unless_all_null([verdict.exit_code for verdict in verdicts]),
        "details": _unless_all_null([verdict.details for verdict in verdicts]),
    }


def _share(one: str, each: str, values: list[Any], show: Callable[[Any], str]) -> dict[str, Any]:
    """Returns the value that all have and no array, or none and an array."""
    if values.count(values[0]) == len(values):
        return {one: values[0], each: "{}"}
    return {one: None, each: _literal(map(show, values))}


def _literal(values: Iterable[str]) -> str:
    """Writes an array as Postgres reads it from text. The driver takes 0.5 to 0.9 µs for a value in an array, this
    0.05.
    """
    return f"{{{','.join(values)}}}"


def _quote(text: str) -> str:
    if "\\" in text or '"' in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


@lru_cache(maxsize=1024)
def _interval(span: timedelta | None) -> str | None:
    """Writes seconds: a day of Postgres may have 23 hours. Ended jobs are found by the length of their retention."""
    return None if span is None else f"{span.days * 86400 + span.seconds}.{span.microseconds:06d} seconds"


def _keeps(done: Iterable[tuple[Claim, Verdict]]) -> Iterator[str | None]:
    """Yields how long each job is kept. Most of a batch are alike, and found by identity in a tenth of the time."""
    known: dict[tuple[int, int], str | None] = {}
    for claim, verdict in done:
        alike = id(claim.definition), id(verdict.status)
        if alike not in known:
            known[alike] = _interval(claim.definition.retention.keep(verdict.status))
        yield known[alike]


def _unless_all_null(values: list[Any]) -> list[Any]:
    """Leaves an array of nulls empty: `unnest` fills up with nulls."""
    return [] if values.count(None) == len(values) else values


_MOMENTS = (
    *("scheduled_for", "queued_at", "started_at", "finished_at", "deadline"),
    *("lease_expires_at", "cancel_requested_at"),
)


def error_groups(found: Sequence[Record], limit: int, counted: int) -> ErrorGroups:
    """Makes groups of rows that were read with one more than asked for."""
    groups = [
        ErrorGroup(
            row["error_group"].hex(),
            TenantId(row["tenant_id"]),
            row["definition"],
            row["last_error_code"],
            row["last_error"],
            row["jobs"],
            row["jobs"] == counted,
            row["recent"],
            row["first_at"],
            row["last_at"],
            JobId(str(row["id"])),
        )
        for row in found[:limit]
    ]
    return ErrorGroups(latest_first(groups), len(found) <= limit)


def job(row: Record) -> JobRecord:
    """Reads a job, and never fails: a value that can't be read is shown as near as possible, and named in
    `unreadable`.
    """
    unreadable = list(_moments_beyond(row))
    return JobRecord(
        id=JobId(str(row["id"])),
        tenant=TenantId(row["tenant_id"]),
        definition=row["definition"],
        version=row["version"],
        status=Status(row["status"]),
        due=row["due"],
        priority=row["priority"],
        payload=read_json(row["payload"], "payload", unreadable),
        attempt=row["attempt"],
        max_attempts=row["max_attempts"],
        free_attempts=row["forgiven"],
        scheduled_for=row["scheduled_for"],
        queued_at=row["queued_at"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        deadline=row["deadline"],
        worker=_worker(row),
        lease_expires_at=row["lease_expires_at"],
        cancel_requested_at=row["cancel_requested_at"],
        result=None if row["result"] is None else read_json(row["result"], "result", unreadable),
        last_error=row["last_error"],
        last_error_code=row["last_error_code"],
        dedupe_key=row["dedupe_key"],
        source=read_source(row["source"], unreadable),
        source_ref=row["source_ref"],
        correlation_id=row["correlation_id"],
        created_by=row["created_by"],
        unreadable=tuple(unreadable),
    )


def attempt(row: Record) -> Attempt:
    return Attempt(
        number=row["attempt"],
        status=AttemptStatus(row["status"]),
        worker=_worker(row),
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        error=row["error"],
        error_code=row["error_code"],
        exit_code=row["exit_code"],
        details=read_object(row["details"]),
        host=row["host"],
        pid=row["pid"],
    )


def line(row: Record) -> LogLine:
    return LogLine(row["number"], row["text"], LineKind(row["kind"]), row["progress"], row["at"])


def worker(row: Record) -> WorkerRecord:
    tenants = row["tenants"]
    return WorkerRecord(
        id=WorkerId(str(row["id"])),
        facts=WorkerFacts(row["host"], row["pid"], row["version"], row["slots"], read_object(row["metadata"])),
        serves=Subscription(
            names(row["definitions"]), None if tenants is None else tuple(map(TenantId, names(tenants)))
        ),
        running=row["running"],
        started_at=row["started_at"],
        last_seen_at=row["last_seen_at"],
        lease_expires_at=row["lease_expires_at"],
        oldest_started_at=row["oldest_started_at"],
        listens=row["listens"],
        drains_since=row["drains_since"],
    )


def scope(row: Record) -> ScopeRecord:
    of = Scope.of_row(ScopeKind(row["kind"]), row["key"])
    paused_by = None if row["pause_reason"] is None else row["paused_by"]
    return ScopeRecord(of, row["max_running"], row["pause_reason"], row["paused_until"], paused_by)


def _moments_beyond(row: Record) -> Iterator[str]:
    """Yields the moments beyond the bounds, which SQL shows as the nearest one outside of them (leasehold.shown)."""
    for name in _MOMENTS:
        moment = row[name]
        if moment is not None and not EARLIEST <= moment < LATEST:
            years = f"{EARLIEST.year} to {LATEST.year - 1}"
            yield f"{name} is stored as a moment beyond the years {years}, the nearest is shown"


def names(stored: Iterable[str | None]) -> tuple[str, ...]:
    """Leaves out nulls: an array that people wrote into the table may hold some."""
    return tuple(name for name in stored if name is not None)


def _worker(row: Record) -> WorkerId | None:
    return None if row["worker_id"] is None else WorkerId(str(row["worker_id"]))
