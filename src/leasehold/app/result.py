"""Waiting for what a job returns."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from leasehold.app.opened import Opened
from leasehold.errors import JobFailed, PayloadInvalid, ResultTimeout, UnknownJob
from leasehold.model.bounds import LONGEST
from leasehold.model.duration import read_duration
from leasehold.model.job import JobRecord
from leasehold.model.status import Status

if TYPE_CHECKING:
    from leasehold.app.tenant import Enqueued

_ENDED = {
    Status.FAILED: "failed",
    Status.DEAD_LETTER: "was given up as a dead letter",
    Status.CANCELED: "was canceled",
}


def limit_of(timeout: object) -> timedelta:
    """Seconds, "5m" or a timedelta; None stands for as long as it takes."""
    match timeout:
        case None:
            return LONGEST
        case int() | float() if not isinstance(timeout, bool) and abs(timeout) > LONGEST.total_seconds():
            return LONGEST if timeout > 0 else timedelta()
    return min(max(read_duration(timeout), timedelta()), LONGEST)


async def awaited_result(placed: "Enqueued[Any]", limit: timedelta, opened: Opened) -> Any:
    jobs = opened.store.tenant(placed.tenant)
    job = await jobs.wait_until_final(placed.id, limit) or await jobs.get(placed.id)
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
            fix="Wait longer, or look at it later by its id; what you no longer want you can cancel.",
        )
    if job.status is not Status.SUCCEEDED:
        raise _failed(job)
    return _read(placed, job)


def _failed(job: JobRecord) -> JobFailed:
    why = ": ".join(part for part in (job.last_error_code, job.last_error) if part)
    return JobFailed(
        f"job {job.id} of {job.definition!r} {_ENDED[job.status]}{f' ({why})' if why else ''}.",
        fix=f"See: leasehold job {job.id}; once its cause is mended, retry it.",
        job=job.id,
        status=job.status,
        error=job.last_error,
        error_code=job.last_error_code,
    )


def _read(placed: "Enqueued[Any]", job: JobRecord) -> Any:
    """By the type that its handler says it returns; where that is not at hand, as the JSON that it is."""
    definition = placed._app.definition(job.definition)
    try:
        return job.result if definition is None else definition.read_result(job.result)
    except ValidationError as error:
        raise PayloadInvalid(
            f"the result of job {job.id} is not what {job.definition!r} returns: {error.errors()[0]['msg']}. "
            "Nothing was changed.",
            fix="It was written by code of another version: read it as JSON, with get().",
        ) from error
