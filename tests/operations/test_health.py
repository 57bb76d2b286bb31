"""The health of a queue: whether jobs wait, by a look at a few of them."""

import pytest
from tests.store.bench import Bench
from tests.tenant_kit import ACME, HOUR

from leasehold.model.job import TenantId
from leasehold.operations import health
from leasehold.operations.health import has_ready_jobs

EACH_SCOPE = pytest.mark.parametrize("tenant", [ACME, None], ids=["tenant", "all"])


@EACH_SCOPE
async def test_a_due_job_waits(bench: Bench, tenant: TenantId | None) -> None:
    await bench.enqueue()
    await bench.enqueue(delay=HOUR)
    assert await has_ready_jobs(bench.store, tenant) is True


@EACH_SCOPE
async def test_a_scheduled_job_is_not_one_that_waits(bench: Bench, tenant: TenantId | None) -> None:
    await bench.enqueue(delay=HOUR)
    assert await has_ready_jobs(bench.store, tenant) is False


@EACH_SCOPE
async def test_more_scheduled_jobs_than_looked_at_leave_it_open(
    bench: Bench, tenant: TenantId | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "LOOKED_AT", 2)
    await bench.enqueue()
    await bench.enqueue_many(2, delay=HOUR)
    assert await has_ready_jobs(bench.store, tenant) is None
