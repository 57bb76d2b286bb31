"""The measure of handlers on the loop, in threads and in processes, with few jobs."""

import pytest
from bench.measures.isolation import KINDS, cost_of
from tests.conftest import PATIENCE

from leasehold.model.status import Status
from leasehold.store import Store


@pytest.mark.parametrize("kind", KINDS)
async def test_each_kind_of_handler_is_measured_to_its_last_job(database_url: str, store: Store, kind: str) -> None:
    cost = await cost_of(database_url, kind, 20, PATIENCE.total_seconds())
    (tenant,) = await store.tenants()
    counts = await store.tenant(tenant).counts(1000)
    assert counts[Status.SUCCEEDED] == 1 + 40 + 20
    assert cost.first > cost.each > 0
