"""One batch of an operation, the same for every engine. The engine keeps two runners from the same batch."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Protocol

from leasehold.model.job import JobId, JobRecord
from leasehold.model.operation import BATCH, LOOK_AGAIN, LOOKED_AT, OperationKind, OperationState
from leasehold.model.status import Status
from leasehold.store.operations import Looked, Operation, OperationStore, Removed, SeenJob, Stepped
from leasehold.store.tenant_jobs import CancelAnswer, RetryAnswer

_DONE = frozenset({RetryAnswer.QUEUED, CancelAnswer.CANCELED, CancelAnswer.REQUESTED})
_LATER = {OperationKind.RETRY: "ended_later", OperationKind.CANCEL: "enqueued_later"}


class BatchVerbs(Protocol):
    """The verbs of an engine that a batch needs, for the tenant of its operation."""

    async def look(self, operation: Operation, scan: int, limit: int) -> Looked: ...

    async def get(self, job: JobId) -> JobRecord | None: ...

    async def retry(self, seen: Mapping[JobId, int]) -> Mapping[JobId, RetryAnswer]: ...

    async def cancel(self, jobs: Sequence[JobId]) -> Mapping[JobId, CancelAnswer]: ...

    async def remove(self, operation: Operation) -> Removed: ...


@dataclass(frozen=True, slots=True)
class BatchDone:
    """The operation after a batch, and how many seconds later its next batch is due."""

    operation: Operation
    wait: float = 0.0


async def run_batch(operation: Operation, verbs: BatchVerbs) -> BatchDone:
    """Does the next batch. The engine stamps the times, and ends the operation by its state."""
    if operation.state is OperationState.ABORTING:
        return BatchDone(replace(operation, state=OperationState.ABORTED))
    operation = replace(operation, state=OperationState.RUNNING)
    if operation.kind is OperationKind.DELETE_TENANT:
        return await _remove_some(operation, verbs)
    if operation.canary and operation.canary_job is not None:
        return await _watch_canary(operation, verbs)
    return await _change_some(operation, verbs, only_one=operation.canary)


async def _change_some(operation: Operation, verbs: BatchVerbs, *, only_one: bool) -> BatchDone:
    size = 1 if only_one else (operation.pace.batch if operation.pace else BATCH)
    looked = await verbs.look(operation, LOOKED_AT, size)
    answers = await _change(operation, verbs, [job for job in looked.jobs if not job.later])
    reasons = Counter(
        _LATER[operation.kind] if job.later else answers[job.id].value
        for job in looked.jobs
        if job.later or answers[job.id] not in _DONE
    )
    changed = [job.id for job in looked.jobs if not job.later and answers[job.id] in _DONE]
    refused = reasons.get(RetryAnswer.DUPLICATE.value, 0)
    after = replace(
        operation,
        place=looked.place,
        state=OperationState.DONE if looked.place is None else OperationState.RUNNING,
        done=operation.done + len(changed),
        refused=operation.refused + refused,
        skipped=operation.skipped + reasons.total() - refused,
        details=dict(Counter(operation.details) + reasons),
    )
    if only_one and changed and looked.place is not None:
        return BatchDone(replace(after, canary_job=changed[0]), LOOK_AGAIN)
    return BatchDone(after, operation.pace.wait_after(len(changed)) if operation.pace else 0.0)


async def _change(
    operation: Operation, verbs: BatchVerbs, jobs: Sequence[SeenJob]
) -> Mapping[JobId, RetryAnswer | CancelAnswer]:
    if not jobs:
        return {}
    if operation.kind is OperationKind.RETRY:
        return dict(await verbs.retry({job.id: job.attempt for job in jobs}))
    return dict(await verbs.cancel([job.id for job in jobs]))


async def _watch_canary(operation: Operation, verbs: BatchVerbs) -> BatchDone:
    """Goes on once the canary has succeeded; ends the operation if it did not."""
    assert operation.canary_job is not None
    job = await verbs.get(operation.canary_job)
    if job is not None and not job.status.final:
        return BatchDone(operation, LOOK_AGAIN)
    if job is not None and job.status is Status.SUCCEEDED:
        return await _change_some(replace(operation, canary=False), verbs, only_one=False)
    ended = "is gone" if job is None else f"ended as {job.status}"
    why = "" if job is None or not job.last_error else f": {job.last_error.splitlines()[0][:300]}"
    return BatchDone(
        replace(
            operation,
            state=OperationState.FAILED,
            error=f"the canary {operation.canary_job} {ended}{why}. No other job was retried.",
        )
    )


async def _remove_some(operation: Operation, verbs: BatchVerbs) -> BatchDone:
    removed = await verbs.remove(operation)
    after = replace(
        operation,
        state=OperationState.DONE if removed.over else OperationState.RUNNING,
        done=operation.done + sum(removed.rows.values()),
        details=dict(Counter(operation.details) + Counter(removed.rows)),
        error=removed.waits,
    )
    if removed.waits is not None:
        return BatchDone(after, LOOK_AGAIN)
    wait = operation.pace.wait_after(sum(removed.rows.values())) if operation.pace else 0.0
    return BatchDone(after, wait)


# Seconds that a runner waits for the next batch of an operation whose last batch it did.
LONGEST_WAIT = 10.0


async def _await(asked: Awaitable[Stepped]) -> Stepped:
    return await asked


async def run_while_due(
    operations: OperationStore,
    pause: Callable[[float], Awaitable[None]],
    in_time: Callable[[Awaitable[Stepped]], Awaitable[Stepped]] = _await,
    is_over: Callable[[], bool] = lambda: False,
    longest_wait: float = LONGEST_WAIT,
) -> int:
    """Runs batches until no operation is open, or another runner has it. Returns how many it ran."""
    ran = 0
    while not is_over():
        stepped = await in_time(operations.step())
        if stepped.operation is not None:
            ran += 1
        elif not ran or stepped.wait is None or stepped.wait <= timedelta():
            return ran
        wait = 0.0 if stepped.wait is None else stepped.wait.total_seconds()
        if stepped.wait is None or wait > longest_wait:
            return ran
        if wait > 0:
            await pause(wait)
    return ran
