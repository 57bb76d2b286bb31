"""The jobs of a tenant: enqueue, list, show, change, count, explain."""

from datetime import timedelta
from typing import Annotated, Any

from fastapi import Query, Response
from pydantic import AwareDatetime

from leasehold.api import shown
from leasehold.api.context import Asked, Context, require_permission
from leasehold.api.documents import (
    AttemptsDocument,
    CancelDocument,
    Cursor,
    EnqueuedDocument,
    EnqueueJob,
    ExplanationDocument,
    IdempotencyKey,
    JobDocument,
    JobIdPath,
    JobPageDocument,
    Limit,
    Offset,
    OfTenant,
    Reschedule,
    SummaryDocument,
)
from leasehold.api.route import Routes, answer
from leasehold.errors import InvalidInput
from leasehold.model.access import Permission
from leasehold.model.dedupe import Dedupe, OnConflict, WhileActive, Within
from leasehold.model.job import JobId, NewJob, Source, TenantId, job_id
from leasehold.operations import explain as explaining
from leasehold.operations import jobs as operations
from leasehold.operations import lookup, reading, views
from leasehold.operations.enqueue import Target, enqueue_key
from leasehold.operations.lookup import as_filters, read_states
from leasehold.operations.reports import report_enqueue
from leasehold.operations.traits import NAMES as TRAITS
from leasehold.operations.traits import read_traits

routes = Routes("jobs")
CAP = 10_000
Words = Annotated[list[str] | None, Query(max_length=10, description="Statuses, or states as people see them.")]
Keys = Annotated[list[str] | None, Query(max_length=20, description="Keys of definitions.")]
Moment = Annotated[AwareDatetime | None, Query()]


@routes.add("POST", "/jobs", Permission.JOBS_ENQUEUE, EnqueuedDocument, status=201, also=200)
async def enqueue_job(
    context: Asked, sent: EnqueueJob, key: IdempotencyKey = None, tenant: OfTenant = None
) -> Response:
    """Enqueues a job. Answers 201 if it is new, and 200 with the job that holds its dedupe key or its id.

    With an Idempotency-Key, the same request sent again makes no second job; another one with that key is refused.
    """
    owner = context.tenant(tenant)
    fields = _fields(context, owner, sent, key)
    with context.produce("enqueue", sent.definition_key, owner) as production:
        traced = {"trace_context": production.trace_context}
        target = Target(owner, fields | traced, context.guard.backend.code)
        placed = await context.call(lambda catalog: enqueue_key(target, sent.definition_key, sent.payload, catalog))
        production.note(job=placed.id)
    report_enqueue(context.guard.backend.listeners, owner, sent.definition_key, placed)
    record = await context.ask(lambda store: operations.get(store, owner, placed.id))
    document = shown.job(context, record) | {"created": placed.created, "replaced": placed.replaced}
    return answer(document, 201 if placed.created else 200, {"Location": f"/api/v1/jobs/{record.id}"})


def _fields(context: Context, owner: TenantId, sent: EnqueueJob, key: str | None) -> dict[str, Any]:
    """Returns the fields of a job. Raises InvalidInput for values that a job can't have."""
    if sent.scheduled_for is not None and sent.delay_seconds is not None:
        raise InvalidInput(
            "scheduled_for and delay_seconds can't both say when the job is due. Nothing was enqueued.",
            fix="Leave one out.",
        )
    fields: dict[str, Any] = {
        "at": sent.scheduled_for,
        "delay": None if sent.delay_seconds is None else timedelta(seconds=sent.delay_seconds),
        "deadline": sent.deadline,
        "priority": sent.priority,
        "max_attempts": sent.max_attempts,
        "dedupe": _dedupe(sent),
        "correlation_id": sent.correlation_id,
        "created_by": context.principal.name,
        "source_ref": context.request_id,
    }
    if (repeatable := context.repeatable_id(owner, "enqueue", key)) is not None:
        fields["id"] = job_id(repeatable)
    fields = {name: value for name, value in fields.items() if value is not None}
    NewJob(definition=sent.definition_key, **fields)
    return fields


def _dedupe(sent: EnqueueJob) -> Dedupe | None:
    if sent.dedupe_key is None and sent.dedupe_window_seconds is None:
        return None
    seconds = sent.dedupe_window_seconds
    mode = WhileActive() if seconds is None else Within(timedelta(seconds=seconds))
    return Dedupe(sent.dedupe_key, mode, OnConflict(sent.on_conflict))


@routes.add("GET", "/jobs", Permission.JOBS_READ, JobPageDocument)
async def list_jobs(
    context: Asked,
    status: Words = None,
    source: Annotated[Source | None, Query()] = None,
    definition: Keys = None,
    correlation_id: Annotated[str | None, Query(max_length=1000)] = None,
    created_after: Moment = None,
    created_before: Moment = None,
    error_group: Annotated[str | None, Query(max_length=40, description="An id of GET /errors.")] = None,
    worker: Annotated[str | None, Query(max_length=36, description="The id of a worker.")] = None,
    dedupe_key: Annotated[str | None, Query(max_length=1000)] = None,
    priority: Annotated[str | None, Query(max_length=40, description="5, <50, >10 or 1..9.")] = None,
    duration: Annotated[str | None, Query(max_length=80, description=">5m, <10s or 1m..5m.")] = None,
    payload: Annotated[str | None, Query(max_length=2000, description="A field, as in provider.id=p_9.")] = None,
    limit: Limit = 50,
    offset: Offset = 0,
    cursor: Cursor = None,
    tenant: OfTenant = None,
) -> Response:
    """Lists jobs, newest first: of the tenant, or of all tenants if the token is for all and none is named.

    By worker, dedupe_key, priority, duration and payload, a page looks at a bounded number of jobs: it may have few
    jobs, or none, and yet a `next`. To find jobs by their payload needs the permission payloads:read.
    """
    if payload is not None:
        require_permission(context.principal, Permission.PAYLOADS_READ)
    texts = dict(zip(TRAITS, (worker, dedupe_key, priority, duration, payload), strict=True))
    filters = as_filters(
        read_states(status or ()),
        source=source,
        definitions=tuple(definition or ()),
        correlation_id=correlation_id,
        created_after=created_after,
        created_before=created_before,
        error_group=error_group,
        traits=read_traits(texts),
    )
    owner = context.tenant_or_all(tenant)
    page, reasons = await context.ask(
        lambda store: operations.list_page(store, owner, filters, cursor, limit + offset)
    )
    documents = [shown.job(context, each, reasons.of(each)) for each in page.jobs[offset:]]
    return answer({"jobs": documents, "next": page.next})


@routes.add("GET", "/jobs/summary", Permission.JOBS_READ, SummaryDocument)
async def summarize_jobs(context: Asked, tenant: OfTenant = None) -> Response:
    """Counts the jobs of a tenant by status, each up to 10,000, and tells the age of the oldest waiting one."""
    owner = context.tenant(tenant)
    found = await context.ask(lambda store: operations.summary(store, owner, CAP))
    return answer(
        {
            "counts": {status.value: number for status, number in found.counts.items()},
            "cap": CAP,
            "running": found.running,
            "oldest_queued_at": found.oldest_queued_at,
            "oldest_queued_seconds": found.oldest_queued_age,
        }
    )


@routes.add("GET", "/jobs/find", Permission.JOBS_READ, JobDocument)
async def find_job(
    context: Asked,
    text: Annotated[str, Query(alias="id", max_length=100, description="The id, or its last 4 or more characters.")],
    tenant: OfTenant = None,
) -> Response:
    """Finds a job by its id, or by the end of it among the newest 1,000: of the tenant, or of all tenants."""
    owner = context.tenant_or_all(tenant)
    found = await context.ask(lambda store: lookup.find_job(store, text, owner))
    return await _show(context, found.tenant, found.job)


@routes.add("GET", "/jobs/{job_id}", Permission.JOBS_READ, JobDocument)
async def show_job(context: Asked, job: JobIdPath, tenant: OfTenant = None) -> Response:
    """Shows a job."""
    return await _show(context, context.tenant(tenant), job)


async def _show(context: Context, owner: TenantId, job: JobId) -> Response:
    record = await context.ask(lambda store: operations.get(store, owner, job))
    reasons = await context.ask(lambda store: operations.read_reasons(store, [record]))
    return answer(shown.job(context, record, reasons.of(record)))


@routes.add("POST", "/jobs/{job_id}/cancel", Permission.JOBS_CHANGE, CancelDocument)
async def cancel_job(context: Asked, job: JobIdPath, tenant: OfTenant = None) -> Response:
    """Cancels a waiting job; asks the worker of a running one to stop it. Answers 409 for a job that has ended."""
    owner = context.tenant(tenant)
    return answer(
        {"id": job, "answer": await context.ask(lambda store: operations.cancel(store, owner, job, context.actor))}
    )


@routes.add("POST", "/jobs/{job_id}/retry", Permission.JOBS_CHANGE, JobDocument)
async def retry_job(context: Asked, job: JobIdPath, tenant: OfTenant = None) -> Response:
    """Queues a job that has ended once more, with all its tries. Answers 409 if it has not, or its key is held."""
    owner = context.tenant(tenant)
    await context.ask(lambda store: operations.retry(store, owner, job, context.actor))
    return await show_job(context, job, tenant)


@routes.add("POST", "/jobs/{job_id}/run-now", Permission.JOBS_CHANGE, JobDocument)
async def run_job_now(context: Asked, job: JobIdPath, tenant: OfTenant = None) -> Response:
    """Makes a waiting job due now. Answers 409 for any other job."""
    owner = context.tenant(tenant)
    await context.ask(lambda store: operations.run_now(store, owner, job, context.actor))
    return await show_job(context, job, tenant)


@routes.add("POST", "/jobs/{job_id}/reschedule", Permission.JOBS_CHANGE, JobDocument)
async def reschedule_job(context: Asked, job: JobIdPath, sent: Reschedule, tenant: OfTenant = None) -> Response:
    """Changes when a waiting job is due, or its priority. Answers 409 for any other job."""
    owner = context.tenant(tenant)
    delay = None if sent.delay_seconds is None else timedelta(seconds=sent.delay_seconds)
    await context.ask(lambda store: operations.reschedule(store, owner, job, delay, sent.priority, context.actor))
    return await show_job(context, job, tenant)


@routes.add("GET", "/jobs/{job_id}/attempts", Permission.JOBS_READ, AttemptsDocument)
async def list_attempts(context: Asked, job: JobIdPath, tenant: OfTenant = None) -> Response:
    """Lists the attempts of a job, oldest first."""
    owner = context.tenant(tenant)
    found = await context.ask(lambda store: reading.attempts(store, owner, job))
    return answer({"attempts": [shown.attempt(context, each) for each in found]})


@routes.add("GET", "/jobs/{job_id}/explain", Permission.JOBS_READ, ExplanationDocument)
async def explain_job(context: Asked, job: JobIdPath, tenant: OfTenant = None) -> Response:
    """Tells why a job does not run: each condition of a claim, with evidence and what to do."""
    owner = context.tenant(tenant)
    explained = await context.ask(lambda store: explaining.explain(store, owner, job))
    return answer(shown.with_ids(views.explanation(explained)))
