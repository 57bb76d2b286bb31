"""Sources of work: each makes a job runnable while its worker sleeps.

No trigger exists: each statement that makes work calls leasehold.wake.
"""

from collections.abc import AsyncGenerator, Callable
from datetime import timedelta

from tests.store.bench import Bench
from tests.tenant_kit import ACME, HOUR

from leasehold.model.job import JobId, tenant_id
from leasehold.model.limits import Limits, Pause, Scope, ScopeKind
from leasehold.model.outcome import LeaseLost, Raised, Released, Snoozed
from leasehold.store import Subscription, WorkerFacts

TENANT = Scope(ScopeKind.TENANT, ACME)
REPORTS = Scope(ScopeKind.DEFINITION, "report")
Source = Callable[[Bench], AsyncGenerator[JobId, None]]
"""Makes a job that can't run yet; after the first yield, with the worker asleep, it becomes runnable."""


async def enqueue(bench: Bench) -> AsyncGenerator[JobId, None]:
    yield JobId("")
    yield await bench.enqueue()


async def manual_retry(bench: Bench) -> AsyncGenerator[JobId, None]:
    job = await bench.failed()
    yield job
    await bench.jobs.retry({job: 1})
    yield job


async def run_now(bench: Bench) -> AsyncGenerator[JobId, None]:
    job = await bench.enqueue(delay=HOUR)
    yield job
    await bench.jobs.reschedule([job], timedelta())
    yield job


async def given_back(bench: Bench) -> AsyncGenerator[JobId, None]:
    claim = await bench.running()
    yield claim.job
    await bench.finish(claim, Released())
    yield claim.job


async def retry_after_an_error(bench: Bench) -> AsyncGenerator[JobId, None]:
    claim = await bench.running()
    yield claim.job
    await bench.finish(claim, Raised("Unlucky", "no jitter", retry_in=timedelta()))
    yield claim.job


async def snooze(bench: Bench) -> AsyncGenerator[JobId, None]:
    claim = await bench.running()
    yield claim.job
    await bench.finish(claim, Snoozed(timedelta()))
    yield claim.job


async def crash(bench: Bench) -> AsyncGenerator[JobId, None]:
    claim = await bench.running(max_attempts=2)
    yield claim.job
    await bench.store.leave(await bench.worker())
    (orphan,) = await bench.store.evict(10)
    # A heartbeat of the woken worker that comes just now reclaims the orphan first, and wakes its claim loop itself.
    await bench.finish_all([(orphan, LeaseLost())])
    yield claim.job


async def resume(bench: Bench) -> AsyncGenerator[JobId, None]:
    await bench.store.pause(TENANT, Pause("maintenance"))
    job = await bench.enqueue()
    yield job
    await bench.store.pause(TENANT, None)
    yield job


async def raised_limit(bench: Bench) -> AsyncGenerator[JobId, None]:
    await bench.store.limit(REPORTS, Limits(max_running=1))
    await bench.running()
    job = await bench.enqueue()
    yield job
    await bench.store.limit(REPORTS, Limits(max_running=2))
    yield job


async def freed_cap(bench: Bench) -> AsyncGenerator[JobId, None]:
    await bench.store.limit(TENANT, Limits(max_running=1))
    claim = await bench.running()
    job = await bench.enqueue()
    yield job
    await bench.succeed(claim)
    yield job


async def activate(bench: Bench) -> AsyncGenerator[JobId, None]:
    job = await bench.enqueue()
    await bench.store.activate("report", False)
    yield job
    await bench.store.activate("report", True)
    yield job


async def promotion_by_a_worker_of_another_tenant(bench: Bench) -> AsyncGenerator[JobId, None]:
    """It came due, but this worker's timer does not know yet: the database's clock was moved."""
    job = await bench.enqueue(delay=HOUR / 2)
    yield job
    await bench.move_clock(HOUR / 2)
    elsewhere = Subscription(("report",), (tenant_id("other"),))
    registration = await bench.store.join(elsewhere, WorkerFacts("elsewhere", 1), HOUR)
    assert not (await bench.store.claim(registration, 10)).claims
    yield job


SOURCES = [
    enqueue,
    manual_retry,
    run_now,
    given_back,
    retry_after_an_error,
    snooze,
    crash,
    resume,
    raised_limit,
    freed_cap,
    activate,
    promotion_by_a_worker_of_another_tenant,
]
