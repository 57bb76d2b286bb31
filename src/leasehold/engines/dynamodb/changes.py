"""Changes that a tenant asks for: cancel, retry and reschedule of its jobs, each by conditional writes."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from leasehold.engines.dynamodb import items
from leasehold.engines.dynamodb.definitions import Definitions
from leasehold.engines.dynamodb.enqueue_plan import ACTIVE
from leasehold.engines.dynamodb.errors import ConditionFailed
from leasehold.engines.dynamodb.keys import Key, job_key, timestamp
from leasehold.engines.dynamodb.table import NEW, Check, Put, Table, Update, Write, gather
from leasehold.engines.dynamodb.wire import Item
from leasehold.model.job import JobId, TenantId, WorkerId
from leasehold.model.status import Status
from leasehold.model.trace_context import after_attempt, span_of
from leasehold.store import CancelAnswer, RescheduleAnswer, RetryAnswer

# Each time another writer must have changed the job between a read and a write, so a few tries are enough.
TRIES = 20

# Attributes that tell how a job ended. A job that waits again has none of them.
_OF_THE_END = (
    *("completed_at", "result", "reason", "cancel_requested_at", "deadline", "last_attempt"),
    *("prune_pk", "prune_sk", "ttl", *items.ATTEMPT_END),
)


class Changes:
    def __init__(self, table: Table, tenant: TenantId, definitions: Definitions) -> None:
        self._table = table
        self._tenant = tenant
        self._definitions = definitions

    async def cancel(self, job: JobId, now: datetime) -> tuple[CancelAnswer, WorkerId | None]:
        """Cancels a job that waits, or requests it of the worker that runs the job, which is also returned."""
        for _ in range(TRIES):
            item = await self._table.get(self._key(job))
            if item is None:
                return CancelAnswer.UNKNOWN, None
            status = items.status_of(item)
            if status.final:
                return CancelAnswer.ENDED, None
            try:
                if status is Status.QUEUED:
                    await self._cancel_waiting(job, item, now)
                    return CancelAnswer.CANCELED, None
                await self._request_cancel(job, now)
                return CancelAnswer.REQUESTED, WorkerId(item["locked_by"])
            except ConditionFailed:
                continue
        raise AssertionError(f"job {job} was changed by others {TRIES} times")

    async def _cancel_waiting(self, job: JobId, item: Item, now: datetime) -> None:
        await self._definitions.learn([(item["job_type"], item["version"])])
        definition, _ = self._definitions.get(item["job_type"], item["version"])
        place = items.Place(self._tenant, job, self._table.shards)
        sets = {
            **place.ended(Status.CANCELED, now, definition.retention.keep(Status.CANCELED)),
            "cancel_requested_at": timestamp(now),
        }
        await self._table.update(self._if_it_waits(job, sets, item), returns="NONE")

    async def _request_cancel(self, job: JobId, now: datetime) -> None:
        """Requests a cancel. A second request changes nothing."""
        condition = "#status = :running AND attribute_not_exists(#cancel_requested_at)"
        change = Update(self._key(job), {"cancel_requested_at": timestamp(now)}, condition, items.WORDS)
        try:
            await self._table.update(change, returns="NONE")
        except ConditionFailed as failed:
            if failed.item is None or failed.item["status"] != items.RUNNING:
                raise

    async def reschedule(
        self, job: JobId, delay: timedelta | None, priority: int | None, now: datetime
    ) -> RescheduleAnswer:
        for _ in range(TRIES):
            item = await self._table.get(self._key(job))
            if item is None:
                return RescheduleAnswer.UNKNOWN
            if items.status_of(item) is not Status.QUEUED:
                return RescheduleAnswer.NOT_WAITING
            sets: dict[str, Any] = {} if priority is None else {"priority": priority}
            if delay is not None:
                place = items.Place(self._tenant, job, self._table.shards)
                sets |= place.waiting(item["job_type"], now + delay)
            try:
                await self._table.update(self._if_it_waits(job, sets, item), returns="NONE")
                return RescheduleAnswer.RESCHEDULED
            except ConditionFailed:
                continue
        raise AssertionError(f"job {job} was changed by others {TRIES} times")

    async def retry(self, job: JobId, seen: int, now: datetime) -> RetryAnswer:
        """Queues an ended job again, if its attempt is the one that the caller saw and its key is free."""
        for _ in range(TRIES):
            item = await self._table.get(self._key(job))
            if item is None:
                return RetryAnswer.UNKNOWN
            if not items.status_of(item).final:
                return RetryAnswer.ACTIVE
            if item["attempts"] != seen:
                return RetryAnswer.CHANGED
            held = await self._take_key_again(job, item, now)
            if held is None:
                return RetryAnswer.DUPLICATE
            try:
                await self._table.transact([self._queue_again(job, item, now), *held, *_last_attempt(item)])
                return RetryAnswer.QUEUED
            except ConditionFailed:
                continue
        raise AssertionError(f"job {job} was changed by others {TRIES} times")

    def _queue_again(self, job: JobId, item: Item, now: datetime) -> Update:
        place = items.Place(self._tenant, job, self._table.shards)
        sets = {
            **dict.fromkeys(_OF_THE_END),
            "status": items.PENDING,
            "free_attempts": item["attempts"],
            "trace_context": after_attempt(item.get("trace_context"), span_of(item.get("details"))),
            **place.waiting(item["job_type"], now),
        }
        condition = f"{items.ENDED} AND #attempts = :seen"
        return Update(self._key(job), sets, condition, {**items.WORDS, "seen": item["attempts"]})

    async def key_holder(self, job: JobId, now: datetime) -> JobId | None:
        """Returns the other job that holds the key of an ended one."""
        item = await self._table.get(self._key(job))
        if item is None or "hold_pk" not in item:
            return None
        key = item["hold_pk"], item["hold_sk"]
        hold = await self._table.get(key)
        return JobId(hold["job_id"]) if hold is not None and await self._is_of_another(job, key, hold, now) else None

    async def _take_key_again(self, job: JobId, item: Item, now: datetime) -> list[Write] | None:
        """Returns the writes that make the job hold its key again; None if another job holds it."""
        if "hold_pk" not in item:
            return []
        key = item["hold_pk"], item["hold_sk"]
        hold = await self._table.get(key)
        if hold is not None and await self._is_of_another(job, key, hold, now):
            return None
        if key[1] != ACTIVE:
            return []
        pk, sk = self._key(job)
        taken = {"PK": key[0], "SK": key[1], "job_id": job, "job_pk": pk, "job_sk": sk}
        if hold is None or hold["job_id"] == job:
            return [Put(taken, f"{NEW} OR #job_id = :mine", {"mine": job})]
        former = job_key(self._tenant, JobId(hold["job_id"]))
        return [
            Put(taken, f"{NEW} OR #job_id = :seen", {"seen": hold["job_id"]}),
            Check(former, f"{NEW} OR {items.ENDED}", items.WORDS),
        ]

    async def taken_keys(self, jobs: Sequence[JobId], now: datetime) -> frozenset[JobId]:
        """Returns the jobs whose key another one holds, or one of these that is named before."""
        found = await self._table.get_many(self._key(job) for job in jobs)
        keyed = {job: item for job in jobs if "hold_pk" in (item := found.get(self._key(job)) or {})}
        answers = await gather(self._take_key_again(job, item, now) for job, item in keyed.items())
        taken = {job for job, answer in zip(keyed, answers, strict=True) if answer is None}
        first: dict[Key, JobId] = {}
        for job, item in keyed.items():
            key = item["hold_pk"], item["hold_sk"]
            if key[1] == ACTIVE and job not in taken and first.setdefault(key, job) != job:
                taken.add(job)
        return frozenset(taken)

    async def _is_of_another(self, job: JobId, key: Key, hold: Item, now: datetime) -> bool:
        if hold["job_id"] == job:
            return False
        if key[1] == ACTIVE:
            holder = await self._table.get(job_key(self._tenant, JobId(hold["job_id"])))
            return holder is not None and not items.status_of(holder).final
        return "expires_at" not in hold or hold["expires_at"] > timestamp(now)

    def _if_it_waits(self, job: JobId, sets: dict[str, Any], seen: Item) -> Update:
        """Changes a job that still waits as it was read: the same attempt of the same definition."""
        condition = f"{items.WAITS} AND #attempts = :seen AND #job_type = :kind AND #version = :version"
        values = {**items.WORDS, "seen": seen["attempts"], "kind": seen["job_type"], "version": seen["version"]}
        return Update(self._key(job), sets, condition, values)

    def _key(self, job: JobId) -> Key:
        return job_key(self._tenant, job)


def _last_attempt(item: Item) -> list[Write]:
    """Returns the item of the last attempt, which the job itself has told so far; none if the job never ran."""
    if "attempt_status" not in item or "last_attempt" in item:
        return []
    end = {name: item[name] for name in items.ATTEMPT_END if name in item}
    return [Put(items.attempt_item(item, {**end, "finished_at": item["completed_at"]}))]
