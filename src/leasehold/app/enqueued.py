"""The answer to an enqueue, and waiting for the job's result."""

from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from leasehold.app.app_store import AppStore
from leasehold.app.open_store import OpenStore
from leasehold.errors import JobFailed, PayloadInvalid, ResultTimeout, UnknownJob
from leasehold.model.bounds import LONGEST
from leasehold.model.duration import Duration, read_duration
from leasehold.model.job import JobId, JobRecord, TenantId
from leasehold.model.status import Status
from leasehold.operations import jobs
from leasehold.operations.views import error_of

R = TypeVar("R")

_ENDED = {
    Status.FAILED: "failed",
    Status.DEAD_LETTER: "was given up as a dead letter",
    Status.CANCELED: "was canceled",
}


@dataclass(frozen=True, slots=True)
class Enqueued(Generic[R]):
    """The answer to an enqueue. Not `created`: the job with this id was there before and holds the key or the id.

    `replaced`: that job still waited, and now has the new arguments and options.
    """

    id: JobId
    created: bool
    tenant: TenantId
    definition: str
    _store: AppStore = field(repr=False, compare=False)
    replaced: bool = False

    def result(self, timeout: Duration | None = None) -> R:
        """Returns the handler's result once there is one. The end of the job wakes the caller; None: no limit.

        Raises JobFailed for a job that ends in any other way, ResultTimeout if it has not ended in time (and goes
        on), UnknownJob if it was pruned.
        """
        result: R = self._store.call(partial(_wait_for_result, self, limit_of(timeout)), "aresult")
        return result

    async def aresult(self, timeout: Duration | None = None) -> R:
        result: R = await self._store.acall(partial(_wait_for_result, self, limit_of(timeout)))
        return result


def limit_of(timeout: object) -> timedelta:
    """Reads seconds, "5m" or a timedelta; None stands for the longest time there is."""
    match timeout:
        case None:
            return LONGEST
        case int() | float() if not isinstance(timeout, bool) and abs(timeout) > LONGEST.total_seconds():
            return LONGEST if timeout > 0 else timedelta()
    return min(max(read_duration(timeout), timedelta()), LONGEST)


async def _wait_for_result(placed: Enqueued[Any], limit: timedelta, opened: OpenStore) -> Any:
    job = await jobs.wait(opened.store, placed.tenant, placed.id, limit)
    if job is None:
        raise UnknownJob(
            f'tenant "{placed.tenant}" has no job {placed.id}: it was pruned, or is not committed yet. '
            "Nothing was changed.",
            fix="Within a transaction of yours, commit before you ask. Jobs are pruned when their retention is over: "
            "keep them longer, or ask earlier.",
        )
    if not job.status.final:
        raise ResultTimeout(
            f"job {job.id} has not ended in {limit.total_seconds():g} s: it is {job.display}. It goes on.",
            fix="Wait longer, or look at it later by its id; you can cancel it.",
        )
    if job.status is not Status.SUCCEEDED:
        raise _failure(job)
    return _read(placed, job)


def _failure(job: JobRecord) -> JobFailed:
    why = error_of(job.last_error_code, job.last_error)
    return JobFailed(
        f"job {job.id} of {job.definition!r} {_ENDED[job.status]}{f' ({why})' if why else ''}.",
        fix=f"See: leasehold job {job.id}; once its cause is mended, retry it.",
        job=job.id,
        status=job.status,
        error=job.last_error,
        error_code=job.last_error_code,
    )


def _read(placed: Enqueued[Any], job: JobRecord) -> Any:
    """Reads a result by the return type of its handler; as plain JSON if the app does not have the handler."""
    definition = placed._store.registry.get(job.definition)
    try:
        return job.result if definition is None else definition.read_result(job.result)
    except ValidationError as error:
        raise PayloadInvalid(
            f"the result of job {job.id} is not what {job.definition!r} returns: {error.errors()[0]['msg']}. "
            "Nothing was changed.",
            fix="It was written by code of another version: read it as JSON, with get().",
        ) from error
