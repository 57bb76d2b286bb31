"""Workers over HTTP: claim, heartbeat, complete, fail. Needs a token of the role `worker`.

A worker joins with its first claim, and sends the id that it gets with every later request. Only the token that
joined can use this id. Each claim has a fence; a claim that was lost answers 409, and nothing is written for it.
"""

from datetime import timedelta
from typing import Any

from fastapi import Response

from leasehold.api.context import Asked
from leasehold.api.documents import JobIdPath
from leasehold.api.route import Routes, answer
from leasehold.api.worker_documents import (
    Claims,
    ClaimsDocument,
    Complete,
    Fail,
    FinishedDocument,
    Heartbeat,
    HeartbeatDocument,
    OfClaim,
)
from leasehold.config import process_redactor
from leasehold.model.access import Permission
from leasehold.model.job import Claim, LineKind, LogLine
from leasehold.model.outcome import Raised, Succeeded
from leasehold.model.payload import decode, encode_result
from leasehold.operations import remote_workers as operations
from leasehold.store import WorkerFacts

routes = Routes("worker")


@routes.add("POST", "/worker/jobs/claim", Permission.WORK, ClaimsDocument)
async def claim_jobs(context: Asked, sent: Claims) -> Response:
    """Claims due jobs, and extends the lease of the worker. Joins if no `worker_id` is sent."""
    lease = timedelta(seconds=sent.lease_seconds)
    facts = WorkerFacts(sent.host, sent.pid, sent.version)
    wanted = None if sent.definitions is None else tuple(sent.definitions)
    worker, claimed = await context.work(
        lambda remote: operations.claim(remote, context.principal, sent.worker_id, wanted, facts, lease, sent.limit)
    )
    return answer(
        {
            "worker_id": worker.registration.worker,
            "lease_seconds": worker.lease.total_seconds(),
            "claims": [_document(each) for each in claimed.claims],
            "more": claimed.more,
            "next_due_seconds": claimed.next_due,
        }
    )


@routes.add("POST", "/worker/jobs/{job_id}/heartbeat", Permission.WORK, HeartbeatDocument)
async def send_heartbeat(context: Asked, job: JobIdPath, sent: Heartbeat) -> Response:
    """Extends the lease of the worker and of all its claims, and appends log lines of this one."""
    named = operations.NamedClaim(sent.worker_id, job, sent.fence)
    lease, canceled = await context.work(
        lambda remote: operations.heartbeat(remote, context.principal, named, _lines(sent))
    )
    return answer({"cancel_requested": canceled, "lease_seconds": lease})


@routes.add("POST", "/worker/jobs/{job_id}/complete", Permission.WORK, FinishedDocument)
async def complete_job(context: Asked, job: JobIdPath, sent: Complete) -> Response:
    """Ends a claim with success. The same request sent again, after a lost answer, gets the same answer."""
    result = None if sent.result is None else process_redactor().json(encode_result(sent.result))
    named = operations.NamedClaim(sent.worker_id, job, sent.fence)
    status = await context.work(
        lambda remote: operations.finish(remote, context.principal, named, Succeeded(result), _lines(sent))
    )
    return answer({"job_id": job, "status": status})


@routes.add("POST", "/worker/jobs/{job_id}/fail", Permission.WORK, FinishedDocument)
async def fail_job(context: Asked, job: JobIdPath, sent: Fail) -> Response:
    """Ends a claim with an error: the job is queued again after its backoff, or given up."""
    again = None if sent.retry_in_seconds is None else timedelta(seconds=sent.retry_in_seconds)
    outcome = Raised(sent.code, process_redactor().text(sent.error), again, sent.final)
    named = operations.NamedClaim(sent.worker_id, job, sent.fence)
    status = await context.work(
        lambda remote: operations.finish(remote, context.principal, named, outcome, _lines(sent))
    )
    return answer({"job_id": job, "status": status})


def _lines(sent: OfClaim) -> list[LogLine]:
    redact = process_redactor().text
    return [LogLine(each.number, redact(each.text), LineKind(each.kind), each.progress) for each in sent.lines]


def _document(claim: Claim) -> dict[str, Any]:
    definition = claim.definition
    return {
        "job_id": claim.job,
        "tenant_id": claim.tenant,
        "definition_key": definition.key,
        "version": claim.version,
        "attempt": claim.attempt,
        "tries": claim.tries,
        "max_attempts": claim.max_attempts,
        "fence": operations.fence_of(claim),
        "payload": decode(claim.payload),
        "timeout_seconds": definition.timeout,
        "correlation_id": claim.correlation_id,
        "queued_at": claim.queued_at,
        "started_at": claim.started_at,
        "cancel_requested": claim.cancel_requested,
        "overdue": claim.overdue,
        "unusable": claim.unusable,
    }
