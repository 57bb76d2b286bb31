"""Verbs of workers that reach the queue through the HTTP API: each request stands alone, and nothing is remembered
but the registrations that were looked up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from random import random
from uuid import UUID

from leasehold.errors import InvalidInput, RegistrationLost
from leasehold.model.access import Principal
from leasehold.model.job import Claim, JobId, LogLine, TenantId, WorkerId, tenant_id
from leasehold.model.outcome import Outcome, Succeeded, decide_safely
from leasehold.model.status import AttemptStatus
from leasehold.operations.remote_registrations import RemoteWorker
from leasehold.operations.remote_work import RemoteWork
from leasehold.store import Claimed, Subscription, WorkerFacts


@dataclass(frozen=True, slots=True)
class NamedClaim:
    """A claim as a request names it. The fence has the tenant, since two tenants may have a job of this id."""

    worker: str
    job: JobId
    fence: str


def fence_of(claim: Claim) -> str:
    """Returns the fence for a request: the attempt, the batch, and the tenant."""
    return f"{claim.attempt}-{claim.batch}-{claim.tenant}"


async def claim(
    remote: RemoteWork,
    bearer: Principal,
    worker: str | None,
    definitions: tuple[str, ...] | None,
    described: WorkerFacts,
    lease: timedelta,
    limit: int,
) -> tuple[RemoteWorker, Claimed]:
    """Claims due jobs, after joining or extending the lease. Raises RegistrationLost, NotPermitted."""
    if worker is None:
        wanted = bearer.definitions if definitions is None else definitions
        serves = Subscription(tuple(dict.fromkeys(wanted or ())))
        known = await remote.registrations.join(bearer, serves, described, lease)
        remote.upkeep.begin()
    else:
        known = await _require_worker(remote, bearer, worker)
        await _renew(remote, known)
    return known, await remote.store.claim(known.registration, limit)


async def _require_worker(remote: RemoteWork, bearer: Principal, worker: str) -> RemoteWorker:
    """Returns the registration, if the bearer has joined with it. Raises RegistrationLost, the same for another's."""
    try:
        wanted = WorkerId(str(UUID(worker)))
    except ValueError as error:
        raise InvalidInput(
            "worker_id is not an id that a claim answered. Nothing was done.", fix="Claim without it, to join."
        ) from error
    return await remote.registrations.find(bearer, wanted)


async def _renew(remote: RemoteWork, worker: RemoteWorker) -> Sequence[Claim]:
    """Extends the lease of the worker and its claims; returns them. Reclaims the jobs of dead workers, if told."""
    held = await remote.store.held(worker.registration)
    renewal = await remote.store.renew(worker.registration, held, worker.lease)
    if not renewal.alive:
        raise _lost()
    remote.upkeep.note(renewal)
    return [_with_cancel(each) if each in renewal.cancels else each for each in held if each not in renewal.lost]


def _with_cancel(claim: Claim) -> Claim:
    claim.cancel_requested = True
    return claim


async def heartbeat(
    remote: RemoteWork, bearer: Principal, named: NamedClaim, lines: Sequence[LogLine]
) -> tuple[float, bool]:
    """Extends all claims of a worker. Returns its lease, and whether this claim shall be canceled."""
    worker = await _require_worker(remote, bearer, named.worker)
    found = _find(await _renew(remote, worker), named)
    if found is None:
        raise _lost()
    if lines:
        await remote.store.append_log([(found, line) for line in lines])
    return worker.lease.total_seconds(), found.cancel_requested


async def finish(
    remote: RemoteWork, bearer: Principal, named: NamedClaim, outcome: Outcome, lines: Sequence[LogLine]
) -> str:
    """Ends a claim; returns the status of its job. Raises RegistrationLost if the claim was lost.

    A request that is repeated after a lost answer finds the attempt that it has ended itself.
    """
    worker = await _require_worker(remote, bearer, named.worker)
    found = _find(await remote.store.held(worker.registration), named)
    if found is not None:
        if lines:
            await remote.store.append_log([(found, line) for line in lines])
        verdict = decide_safely(outcome, found, random())
        if found not in await remote.store.finish([(found, verdict)]):
            return await _status(remote, found.tenant, found.job, verdict.status.value)
    return await _answer_again(remote, worker, named, outcome)


async def _answer_again(remote: RemoteWork, worker: RemoteWorker, named: NamedClaim, outcome: Outcome) -> str:
    attempt, _, rest = named.fence.partition("-")
    tenant = _tenant_of(rest.partition("-")[2], worker)
    if tenant is None or not attempt.isascii() or not attempt.isdigit():
        raise _lost()
    wanted = AttemptStatus.SUCCEEDED if isinstance(outcome, Succeeded) else AttemptStatus.FAILED
    for each in await remote.store.tenant(tenant).attempts(named.job):
        if (each.number, each.worker, each.status) == (int(attempt), worker.registration.worker, wanted):
            return await _status(remote, tenant, named.job, "")
    raise _lost()


def _tenant_of(text: str, worker: RemoteWorker) -> TenantId | None:
    """Returns the tenant of a fence, if this worker serves it."""
    try:
        tenant = tenant_id(text)
    except InvalidInput:
        return None
    tenants = worker.registration.serves.tenants
    return tenant if tenants is None or tenant in tenants else None


async def _status(remote: RemoteWork, tenant: TenantId, job: JobId, otherwise: str) -> str:
    record = await remote.store.tenant(tenant).get(job)
    return otherwise if record is None else record.status.value


def _find(held: Sequence[Claim], named: NamedClaim) -> Claim | None:
    return next((each for each in held if each.job == named.job and fence_of(each) == named.fence), None)


def _lost() -> RegistrationLost:
    return RegistrationLost(
        "the claim is lost, or was never yours: its lease has run out, or its job has ended. Nothing was written.",
        fix="Stop the job, and claim again; without worker_id if that is refused, too.",
    )
