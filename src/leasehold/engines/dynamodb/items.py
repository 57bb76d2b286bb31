"""Items of jobs and attempts, and the values of the model that they stand for.

The names and status words of an item are those that a reader of the table may know from elsewhere: `job_type`,
`scheduled_for`, `locked_by`, and `pending`, `failed` (waits for a retry), `in_progress`, `completed`, `cancelled`,
`dead_letter`. A job that failed by decision is a dead letter with the reason "decision". Only this module knows them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from leasehold.engines.dynamodb import keys
from leasehold.engines.dynamodb.keys import read_timestamp, timestamp
from leasehold.engines.dynamodb.wire import Item
from leasehold.model.definition import Definition
from leasehold.model.job import Attempt, Claim, JobId, JobRecord, TenantId, WorkerId
from leasehold.model.status import AttemptStatus, Status
from leasehold.model.stored_values import read_json, read_object, read_source

PENDING, RETRYING, RUNNING = "pending", "failed", "in_progress"
COMPLETED, CANCELLED, DEAD_LETTER = "completed", "cancelled", "dead_letter"
ENDED_WORDS = frozenset({COMPLETED, CANCELLED, DEAD_LETTER})
DECISION = "decision"

WAITS = "#status IN (:pending, :retrying)"
ENDED = "#status IN (:completed, :cancelled, :dead_letter)"
FENCE = "#status = :running AND #attempts = :attempt AND #locked_by = :worker AND #claim_batch = :batch"
WORDS: Mapping[str, str] = {
    "pending": PENDING,
    "retrying": RETRYING,
    "running": RUNNING,
    "completed": COMPLETED,
    "cancelled": CANCELLED,
    "dead_letter": DEAD_LETTER,
}
"""The values of these conditions."""

# TTL deletes a job that no worker has pruned. Pruning comes first: it also deletes attempts and log lines.
TTL_AFTER_PRUNE = timedelta(days=7)

OF_FENCE = ("status", "attempts", "locked_by", "claim_batch")
"""The attributes that tell whether a claim holds."""


def fence_values(claim: Claim) -> dict[str, Any]:
    return {**WORDS, "attempt": claim.attempt, "worker": claim.worker, "batch": claim.batch}


def key_of(claim: Claim) -> keys.Key:
    return keys.job_key(claim.tenant, claim.job)


def holds(item: Item | None, claim: Claim) -> bool:
    """Returns whether the item is still that of this claim."""
    return item is not None and (
        item["status"],
        item["attempts"],
        item.get("locked_by"),
        item.get("claim_batch"),
    ) == (
        RUNNING,
        claim.attempt,
        claim.worker,
        claim.batch,
    )


def status_of(item: Mapping[str, Any]) -> Status:
    word = item["status"]
    if word == DEAD_LETTER and item.get("reason") == DECISION:
        return Status.FAILED
    return _STATUSES[word]


_STATUSES = {
    PENDING: Status.QUEUED,
    RETRYING: Status.QUEUED,
    RUNNING: Status.RUNNING,
    COMPLETED: Status.SUCCEEDED,
    CANCELLED: Status.CANCELED,
    DEAD_LETTER: Status.DEAD_LETTER,
}
_FINAL_WORDS = {
    Status.SUCCEEDED: COMPLETED,
    Status.CANCELED: CANCELLED,
    Status.DEAD_LETTER: DEAD_LETTER,
    Status.FAILED: DEAD_LETTER,
}


@dataclass(frozen=True, slots=True)
class Place:
    """A job's place in the indexes, which differs by status."""

    tenant: TenantId
    job: JobId
    shards: int

    def waiting(self, definition: str, scheduled_for: datetime) -> dict[str, Any]:
        """Returns the attributes of a job that waits. The key of the due index has the time of `scheduled_for`."""
        return {
            "scheduled_for": timestamp(scheduled_for),
            "due_pk": keys.due_pk(definition, self._shard, self.shards),
            "due_sk": keys.due_sk(scheduled_for, self.job),
            **self._listed(Status.QUEUED),
        }

    def running(self, lock_expires_at: datetime) -> dict[str, Any]:
        """Returns the attributes of a job that runs. It comes due by itself when its lock has expired."""
        return {**self.locked(lock_expires_at), **self._listed(Status.RUNNING)}

    def locked(self, lock_expires_at: datetime) -> dict[str, Any]:
        return {
            "lock_expires_at": timestamp(lock_expires_at),
            "due_sk": keys.due_sk(lock_expires_at, self.job),
        }

    def ended(self, status: Status, now: datetime, keep: timedelta | None) -> dict[str, Any]:
        """Returns the attributes of a job that has ended: history is not in the due index."""
        return {
            "status": _FINAL_WORDS[status],
            "reason": DECISION if status is Status.FAILED else None,
            "completed_at": timestamp(now),
            "due_pk": None,
            "due_sk": None,
            "locked_by": None,
            "lock_expires_at": None,
            **self._listed(status),
            **self._kept(now, keep),
        }

    def _kept(self, now: datetime, keep: timedelta | None) -> dict[str, Any]:
        until = None if keep is None else _sum(now, keep)
        if until is None:
            return {"prune_pk": None, "prune_sk": None, "ttl": None}
        return {
            "prune_pk": keys.prune_pk(self._shard),
            "prune_sk": f"{timestamp(until)}#{self.job}",
            "ttl": int((_sum(until, TTL_AFTER_PRUNE) or until).timestamp()),
        }

    def _listed(self, status: Status) -> dict[str, Any]:
        return {"list_pk": keys.list_pk(self.tenant, status.value, self._shard), "list_sk": self.job}

    @property
    def _shard(self) -> int:
        return keys.shard_of(self.job, self.shards)


def _sum(moment: datetime, length: timedelta) -> datetime | None:
    """Returns None for a moment beyond those that a datetime can hold: that is for ever."""
    try:
        return moment + length
    except OverflowError:
        return None


def read_job(item: Item, now: datetime) -> JobRecord:
    """Reads a job, and never fails: a value that can't be read is shown as near as possible, and named."""
    unreadable: list[str] = []
    status = status_of(item)
    scheduled_for = read_timestamp(item["scheduled_for"])
    tenant, job = keys.read_job_pk(item["PK"])
    return JobRecord(
        id=job,
        tenant=tenant,
        definition=item["job_type"],
        version=item["version"],
        status=status,
        due=status is not Status.QUEUED or scheduled_for <= now,
        priority=item["priority"],
        payload=read_json(item["payload"], "payload", unreadable),
        attempt=item["attempts"],
        max_attempts=item["max_attempts"],
        free_attempts=item["free_attempts"],
        scheduled_for=scheduled_for,
        queued_at=read_timestamp(item["created_at"]),
        started_at=_moment(item, "started_at"),
        finished_at=_moment(item, "completed_at"),
        deadline=_moment(item, "deadline"),
        worker=WorkerId(item["worker_id"]) if status is Status.RUNNING or "attempt_status" in item else None,
        lease_expires_at=_moment(item, "lock_expires_at"),
        cancel_requested_at=_moment(item, "cancel_requested_at"),
        result=read_json(item["result"], "result", unreadable) if "result" in item else None,
        last_error=item.get("last_error"),
        last_error_code=item.get("last_error_code"),
        dedupe_key=item.get("dedupe_key"),
        source=read_source(item["source"], unreadable),
        source_ref=item.get("source_ref"),
        correlation_id=item.get("correlation_id"),
        created_by=item.get("created_by"),
        unreadable=tuple(unreadable),
    )


def read_claim(item: Item, definition: Definition, now: datetime) -> Claim:
    tenant, job = keys.read_job_pk(item["PK"])
    return Claim(
        tenant,
        job,
        item["attempts"],
        WorkerId(item["locked_by"]),
        item["claim_batch"],
        definition,
        item["version"],
        item["payload"],
        item["max_attempts"],
        item["free_attempts"],
        read_timestamp(item["created_at"]).timestamp(),
        read_timestamp(item["started_at"]).timestamp(),
        item.get("correlation_id"),
        "cancel_requested_at" in item,
        "deadline" in item and item["deadline"] < timestamp(now),
        item["priority"],
        item.get("trace_context"),
    )


# A job that waits again may be replaced by one of another definition.
_OF_CLAIM = ("job_type", "worker_id", "claim_batch", "worker_host", "worker_pid")


def attempt_item(job: Item, end: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the item of an attempt that ended: of the job as it was while it ran, and of the attempt's end."""
    return {
        "PK": job["PK"],
        "SK": keys.attempt_sk(job["attempts"], WorkerId(job["worker_id"])),
        "attempt": job["attempts"],
        "started_at": job["started_at"],
        **{name: job[name] for name in _OF_CLAIM if name in job},
        **end,
    }


ATTEMPT_END = ("attempt_status", "error", "error_code", "exit_code", "details")
"""Attributes that tell how an attempt ended: of its own item, or of the job if it was the last attempt."""


def read_attempt(item: Item) -> Attempt:
    """Reads an attempt from its own item, or from the job for the attempt that runs or was the last."""
    return Attempt(
        number=item["attempt"] if "attempt" in item else item["attempts"],
        status=AttemptStatus(item.get("attempt_status", "running")),
        worker=WorkerId(item["worker_id"]) if "worker_id" in item else None,
        started_at=read_timestamp(item["started_at"]),
        finished_at=_moment(item, "finished_at") or _moment(item, "completed_at"),
        error=item.get("error"),
        error_code=item.get("error_code"),
        exit_code=item.get("exit_code"),
        details=read_object(item.get("details", "{}")),
        host=item.get("worker_host"),
        pid=item.get("worker_pid"),
    )


def _moment(item: Item, name: str) -> datetime | None:
    return read_timestamp(item[name]) if name in item else None
