"""Lanes and workers as claims see them, for the reasons why a job does not run."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from leasehold.engines.dynamodb import keys
from leasehold.engines.dynamodb.clock import Clock
from leasehold.engines.dynamodb.definitions import Definitions
from leasehold.engines.dynamodb.find import Listing
from leasehold.engines.dynamodb.holds import Holds, HoldStore
from leasehold.engines.dynamodb.limits import RunningLimits, scopes_of
from leasehold.engines.dynamodb.registrations import Registrations
from leasehold.model.facts import COUNTED_AHEAD, JobFacts, LaneState, LimitHolder, ScopeState, WorkerState
from leasehold.model.job import JobRecord, TenantId
from leasehold.model.limits import Scope
from leasehold.model.status import Status
from leasehold.store import WorkerRecord


class Lanes:
    def __init__(
        self,
        clock: Clock,
        definitions: Definitions,
        holds: HoldStore,
        limits: RunningLimits,
        registrations: Registrations,
        listing: Listing,
    ) -> None:
        self._clock = clock
        self._definitions = definitions
        self._holds = holds
        self._limits = limits
        self._registrations = registrations
        self._listing = listing

    async def states(self, lanes: Sequence[tuple[str, TenantId]]) -> list[LaneState]:
        if not lanes:
            return []
        return await self._states(lanes, await self._registrations.living(), await self._clock.now())

    async def facts(self, job: JobRecord) -> JobFacts:
        now, workers = await self._clock.now(), await self._registrations.workers()
        (lane,) = await self._states([(job.definition, job.tenant)], workers, now)
        if job.worker not in {worker.id for worker in workers}:
            job = replace(job, lease_expires_at=None)  # its worker has left: the lock is all that holds
        states = [_worker_state(worker, job, now) for worker in workers]
        waits = job.status is Status.QUEUED and job.scheduled_for <= now
        return JobFacts(
            now=now,
            job=job,
            lane=lane,
            workers=sorted(states, key=lambda state: (not state.serves, state.id)),
            ahead=await self._listing.count_ahead(job, COUNTED_AHEAD, now) if waits else 0,
            version_known=await self._definitions.version(job.definition, job.version) is not None,
        )

    async def _states(
        self, lanes: Sequence[tuple[str, TenantId]], workers: Sequence[WorkerRecord], now: datetime
    ) -> list[LaneState]:
        held = await self._holds.read()
        current = await self._definitions.current(definition for definition, _ in lanes)
        living = [worker for worker in workers if _starts_jobs(worker, now)]
        found = []
        for definition, tenant in lanes:
            serving = [worker.serves for worker in living if definition in worker.serves.definitions]
            here = sum(serves.tenants is None or tenant in serves.tenants for serves in serving)
            of_tenant, of_definition = scopes_of(definition, tenant)
            scopes = [await self._scope_state(scope, tenant, held, now) for scope in (of_definition, of_tenant)]
            active = bool(current.get(definition, {}).get("active"))
            found.append(LaneState(active, here, tuple(scopes), len(serving) - here, definition in current))
        return found

    async def _scope_state(self, scope: Scope, tenant: TenantId, held: Holds, now: datetime) -> ScopeState:
        state = ScopeState(scope)
        if (pause := held.pause_of(scope, now)) is not None:
            state = replace(
                state,
                paused_because=pause.why,
                paused_until=pause.until,
                paused_since=pause.since,
                paused_by=pause.by,
            )
        if (most := held.limits.get(scope)) is None:
            return state
        running, first = await self._limits.running(scope, most)
        oldest = None
        if first is not None:
            owner, job = keys.read_job_pk(first[0])
            oldest = LimitHolder(job if owner == tenant else None, first[1])
        return replace(state, max_running=most, running=running, oldest=oldest)


def _worker_state(worker: WorkerRecord, job: JobRecord, now: datetime) -> WorkerState:
    serves = worker.serves
    return WorkerState(
        id=worker.id,
        host=worker.facts.host,
        pid=worker.facts.pid,
        version=worker.facts.version,
        slots=worker.facts.slots,
        definitions=serves.definitions,
        serves_definition=job.definition in serves.definitions,
        serves_tenant=serves.tenants is None or job.tenant in serves.tenants,
        alive=_starts_jobs(worker, now),
        last_seen_at=worker.last_seen_at,
        lease_expires_at=worker.lease_expires_at,
        running=worker.running,
    )


def _starts_jobs(worker: WorkerRecord, now: datetime) -> bool:
    return worker.lease_expires_at > now and worker.drains_since is None
