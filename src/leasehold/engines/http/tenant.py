"""One tenant's jobs as a worker over HTTP reaches them: its handlers enqueue follow-ups, if the token may."""

from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from typing import Any

from leasehold.engines.http.client import HttpClient
from leasehold.engines.http.refusals import Refused, no_caller_transaction
from leasehold.errors import InvalidInput
from leasehold.model.dedupe import Always, Dedupe, Within
from leasehold.model.job import Attempt, EnqueueResult, JobId, NewJob, TenantId, job_id
from leasehold.model.secret_fields import SEALED
from leasehold.model.trace_context import TraceContext

FindAttempts = Callable[[TenantId, JobId], Coroutine[Any, Any, Sequence[Attempt]]]


class HttpTenantJobs:
    def __init__(self, client: HttpClient, tenant: TenantId, attempts: FindAttempts) -> None:
        self._client = client
        self._tenant = tenant
        self._attempts = attempts

    def __getattr__(self, name: str) -> Refused:
        if name.startswith("_"):
            raise AttributeError(name)
        return Refused(f"tenant(…).{name}")

    async def attempts(self, job: JobId) -> Sequence[Attempt]:
        """Returns the attempts of a job that this worker has made; others are not its business."""
        return await self._attempts(self._tenant, job)

    async def enqueue(self, jobs: Sequence[NewJob], within: object | None = None) -> Sequence[EnqueueResult]:
        """Enqueues one job. The server checks its payload, pins its version, and notes the token as its creator."""
        if within is not None:
            raise no_caller_transaction()
        if len(jobs) > 1:
            raise InvalidInput(
                f"{len(jobs)} jobs can't be enqueued all or none over HTTP. Nothing was enqueued.",
                fix="Enqueue them one by one; options(id=…) makes each call repeatable.",
            )
        return [await self._enqueue(job) for job in jobs]

    async def _enqueue(self, job: NewJob) -> EnqueueResult:
        headers: dict[str, str] = {} if job.id is None else {"Idempotency-Key": job.id}
        if (traced := TraceContext.read(job.trace_context)) is not None:
            headers |= traced.as_headers()
        answer = await self._client.post("/jobs", _document(job), headers=headers, params={"tenant": self._tenant})
        return EnqueueResult(job_id(answer["id"]), bool(answer["created"]), bool(answer.get("replaced", False)))


def _document(job: NewJob) -> dict[str, Any]:
    if any(type(value) is dict and SEALED in value for value in job.payload.values()):
        raise InvalidInput(
            f"a job of {job.definition!r:.80} has secret fields, which only a process with the database can encrypt "
            "for it. Nothing was enqueued.",
            fix="Enqueue it where the database can be reached.",
        )
    document: dict[str, Any] = {"definition_key": job.definition, "payload": dict(job.payload)}
    if job.at is not None:
        document["scheduled_for"] = job.at.astimezone(UTC).isoformat()
    elif job.delay:
        document["delay_seconds"] = job.delay.total_seconds()
    for name in ("priority", "max_attempts", "correlation_id", "deadline"):
        if (value := getattr(job, name)) is not None:
            document[name] = value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value
    return document | ({} if job.dedupe is None else _dedupe(job.dedupe))


def _dedupe(dedupe: Dedupe) -> dict[str, Any]:
    if dedupe.key is None or isinstance(dedupe.mode, Always):
        raise InvalidInput(
            "over HTTP a job is deduplicated by a key of yours, while it is active or for a window. Nothing was "
            "enqueued.",
            fix='Write options(dedupe_key="…"), or options(dedupe_key="…", dedupe=Within("1h")).',
        )
    window = dedupe.mode.window.total_seconds() if isinstance(dedupe.mode, Within) else None
    return {
        "dedupe_key": dedupe.key,
        "on_conflict": dedupe.on_conflict.value,
        **({} if window is None else {"dedupe_window_seconds": window}),
    }
