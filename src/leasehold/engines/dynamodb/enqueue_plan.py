"""Decides what an enqueue writes, from items that were read: jobs under the same ids, and held keys. No I/O.

A dedupe key is an item that names the job which holds it. For a window, it has a time until which the key is held.
For `WhileActive`, it is held while that job has not ended: so a finish never writes the item, and the next enqueue
takes the key over, on condition that the job has still ended.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any
from uuid import uuid4

import orjson

from leasehold.engines.dynamodb import items
from leasehold.engines.dynamodb.keys import Key, hold_pk, job_key, timestamp
from leasehold.engines.dynamodb.table import NEW, Check, Put, Update, Write
from leasehold.engines.dynamodb.wire import Item, body_size
from leasehold.errors import DuplicateJob, IdReused
from leasehold.model.dedupe import Dedupe, OnConflict, WhileActive, canonical_key
from leasehold.model.job import EnqueueResult, JobId, NewJob, TenantId

ACTIVE, WINDOW = "while-active", "window"


@dataclass(frozen=True, slots=True)
class Request:
    """A job to enqueue with all values that its definition and the clock add."""

    job: NewJob
    id: JobId
    payload: str
    version: int
    priority: int
    max_attempts: int
    queued_at: datetime
    scheduled_for: datetime
    made: str = field(default_factory=lambda: uuid4().hex[:16])
    """Stays with the job, so that an enqueue whose reply was lost finds its own job, whatever became of it."""

    @property
    def size(self) -> int:
        return 1000 + body_size({"payload": self.payload})


@dataclass(frozen=True, slots=True)
class _Hold:
    """A key that a request asks for."""

    key: Key
    dedupe: Dedupe

    @property
    def is_active(self) -> bool:
        return self.key[1] == ACTIVE


@dataclass
class Plan:
    """The items as they will be after the writes so far, and those writes, in groups that belong together."""

    tenant: TenantId
    shards: int
    now: datetime
    found: dict[Key, Item] = field(default_factory=dict)
    planned: dict[Key, dict[str, Any]] = field(default_factory=dict)
    writes: dict[Key, Write] = field(default_factory=dict)

    def needs(self, requests: Iterable[Request]) -> list[Key]:
        """Returns the items that decide about these requests: those under ids of the caller, and those of keys."""
        wanted = [job_key(self.tenant, request.id) for request in requests if request.job.id is not None]
        return wanted + [hold.key for request in requests if (hold := self._hold(request)) is not None]

    def holders(self, found: Mapping[Key, Item]) -> list[Key]:
        """Returns the jobs that the keys among these items name."""
        return [job_key(self.tenant, JobId(item["job_id"])) for item in found.values() if "job_id" in item]

    def copy(self) -> "Plan":
        return Plan(self.tenant, self.shards, self.now, dict(self.found), dict(self.planned), dict(self.writes))

    def add(self, request: Request) -> EnqueueResult:
        """Plans one job. Returns its answer; raises IdReused or DuplicateJob, and then has planned nothing."""
        key = job_key(self.tenant, request.id)
        if request.job.id is not None and (before := self._item(key)) is not None:
            _require_same(request, before)
            return EnqueueResult(request.id, created=False)
        hold = self._hold(request)
        if hold is not None and (holder := self._holder(hold)) is not None:
            return self._resolve(request, hold, holder)
        if hold is not None:
            self._take(hold, request.id)
        self._write(Put(self._new_item(request, hold), NEW))
        return EnqueueResult(request.id, created=True)

    # --------------------------------------------------------------------------------------------------------- keys

    def _hold(self, request: Request) -> _Hold | None:
        dedupe = request.job.dedupe
        if dedupe is None:
            return None
        key = dedupe.key or canonical_key(request.job.definition, self.tenant, request.job.payload)
        family = ACTIVE if isinstance(dedupe.mode, WhileActive) else WINDOW
        return _Hold((hold_pk(self.tenant, key), family), dedupe)

    def _holder(self, hold: _Hold) -> JobId | None:
        """Returns the job that holds the key now."""
        item = self._item(hold.key)
        if item is None:
            return None
        job = JobId(item["job_id"])
        if hold.is_active:
            holder = self._item(job_key(self.tenant, job))
            return job if holder is not None and not items.status_of(holder).final else None
        expires_at = item.get("expires_at")
        return job if expires_at is None or expires_at > timestamp(self.now) else None

    def _take(self, hold: _Hold, job: JobId) -> None:
        """Takes a key that is free, on condition that it still is."""
        pk, sk = hold.key
        held_for = hold.dedupe.held_for
        until = None if held_for is None else self.now + held_for
        job_pk, job_sk = job_key(self.tenant, job)
        taken = {
            "PK": pk,
            "SK": sk,
            "job_id": job,
            "job_pk": job_pk,
            "job_sk": job_sk,
            "expires_at": None if until is None else timestamp(until),
            "ttl": None if until is None else int(until.timestamp()) + 1,
        }
        before = self.found.get(hold.key)
        if before is None:
            self._write(Put(taken, NEW))
            return
        self._write(Put(taken, f"{NEW} OR #job_id = :seen", {"seen": before["job_id"]}))
        former = job_key(self.tenant, JobId(before["job_id"]))
        if hold.is_active and former not in self.writes:
            self.writes[former] = Check(former, f"{NEW} OR {items.ENDED}", items.WORDS)

    def _resolve(self, request: Request, hold: _Hold, holder: JobId) -> EnqueueResult:
        if hold.dedupe.on_conflict is OnConflict.RETURN:
            return EnqueueResult(holder, created=False)
        key = job_key(self.tenant, holder)
        item = self._item(key)
        status = items.status_of(item) if item else None
        if hold.dedupe.on_conflict is OnConflict.REPLACE and item is not None and status == "queued":
            self._replace(request, holder, item)
            return EnqueueResult(holder, created=False, replaced=True)
        raise _duplicate(hold.dedupe, holder, "kept no longer" if status is None else status.value)

    def _replace(self, request: Request, holder: JobId, item: Mapping[str, Any]) -> None:
        """Makes a waiting job the one that is asked for. It keeps its id, its key and its history."""
        key = job_key(self.tenant, holder)
        sets = {
            **self._values(request, holder),
            "free_attempts": item["attempts"],
            "last_error": None,
            "last_error_code": None,
        }
        before = self.writes.get(key)
        if isinstance(before, Put):
            self._write(Put({**before.item, **sets}, NEW))
            return
        condition = f"{items.WAITS} AND #attempts = :seen"
        self.planned[key] = {**item, **sets}
        self.writes[key] = Update(key, sets, condition, {**items.WORDS, "seen": item["attempts"]})

    # -------------------------------------------------------------------------------------------------------- items

    def _item(self, key: Key) -> Mapping[str, Any] | None:
        return self.planned.get(key) or self.found.get(key)

    def _write(self, write: Put) -> None:
        key = write.item["PK"], write.item["SK"]
        self.planned[key] = dict(write.item)
        self.writes[key] = write

    def _new_item(self, request: Request, hold: _Hold | None) -> dict[str, Any]:
        pk, sk = job_key(self.tenant, request.id)
        return {
            "PK": pk,
            "SK": sk,
            "tenant_id": self.tenant,
            "created_at": timestamp(request.queued_at),
            "attempts": 0,
            "free_attempts": 0,
            "dedupe_key": hold.dedupe.key if hold else None,
            "hold_pk": hold.key[0] if hold else None,
            "hold_sk": hold.key[1] if hold else None,
            "made": request.made,
            "request": _request_hash(request.job.definition, request.payload) if request.job.id else None,
            **self._values(request, request.id),
        }

    def _values(self, request: Request, job: JobId) -> dict[str, Any]:
        """Returns what a request says about its job, a replaced one included."""
        new = request.job
        return {
            "job_type": new.definition,
            "version": request.version,
            "status": items.PENDING,
            "payload": request.payload,
            "priority": request.priority,
            "max_attempts": request.max_attempts,
            "deadline": timestamp(new.deadline) if new.deadline else None,
            "source": new.source.value,
            "source_ref": new.source_ref,
            "correlation_id": new.correlation_id,
            "created_by": new.created_by,
            "trace_context": new.trace_context,
            **items.Place(self.tenant, job, self.shards).waiting(new.definition, request.scheduled_for),
        }


def _require_same(request: Request, before: Mapping[str, Any]) -> None:
    """Raises IdReused if the id was used for another request. An id of ours may be brought to repeat its request."""
    known = before.get("request") or _request_hash(before["job_type"], before["payload"])
    if known != _request_hash(request.job.definition, request.payload):
        raise IdReused(
            f"the id {request.id} was used before, for another definition or payload. Nothing was enqueued.",
            fix="Bring a new id for a new request; repeat an old one unchanged.",
        )


def _request_hash(definition: str, payload: str) -> str:
    """Hashes a request under an id of the caller. The order of the payload's keys makes no other request."""
    canonical = orjson.dumps(orjson.loads(payload), option=orjson.OPT_SORT_KEYS)
    return sha256(definition.encode() + b"::" + canonical).hexdigest()


def _duplicate(dedupe: Dedupe, holder: JobId, status: str) -> DuplicateJob:
    key = "of this definition, tenant and payload" if dedupe.key is None else f'"{dedupe.key}"'
    held = f"dedupe key {key} is held by job {holder} ({status})."
    if dedupe.on_conflict is OnConflict.REPLACE:
        error = DuplicateJob(f"{held} Nothing was replaced.", fix="Only a job that still waits can be replaced.")
    else:
        error = DuplicateJob(
            f"{held} Nothing was enqueued.",
            fix='Let that one do the work; on_conflict "return" answers with its id instead.',
        )
    error.job = holder
    return error
