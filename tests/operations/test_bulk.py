"""Operations on many jobs, as people use them: planned, begun, followed, looked up, aborted."""

import pytest
from tests.store.bench import Bench
from tests.tenant_kit import ACME, OTHER

from leasehold.errors import UnknownOperation, WrongState
from leasehold.model.audit import Actor
from leasehold.model.operation import OperationKind, OperationState
from leasehold.model.status import Status
from leasehold.operations import bulk
from leasehold.store import AuditFilter, Filter

ANNA = Actor("anna")


async def test_a_planned_retry_is_run_and_its_beginner_noted(bench: Bench) -> None:
    dead, ended = await bench.dead_lettered(), await bench.succeeded()
    planned = await bulk.plan(bench.store, bulk.new_operation(OperationKind.RETRY, ACME, Filter()))
    assert (planned.matching, list(planned.sample)) == (1, [dead])
    begun = await bulk.begin(bench.store, planned, ANNA)
    *_, last = [each async for each in bulk.run(bench.store, begun)]
    assert (last.state, last.done) == (OperationState.DONE, 1)
    assert [await bench.status(job) for job in (dead, ended)] == [Status.QUEUED, Status.SUCCEEDED]
    (noted,) = (await bench.store.audit.page(AuditFilter(ACME), None, 10)).entries
    assert (noted.entry.action, noted.entry.actor.name) == ("operation.retry", "anna")


async def test_an_operation_is_unknown_to_another_tenant(bench: Bench) -> None:
    planned = await bulk.plan(bench.store, bulk.new_operation(OperationKind.CANCEL, ACME, Filter()))
    begun = await bulk.begin(bench.store, planned)
    for verb in (bulk.get, bulk.abort):
        with pytest.raises(UnknownOperation):
            await verb(bench.store, begun.id, OTHER)
    assert not (await bulk.list_page(bench.store, OTHER, None, 10)).operations
    assert (await bulk.get(bench.store, begun.id, ACME)).state is OperationState.PLANNED


async def test_an_operation_that_no_runner_has_is_aborted_at_once(bench: Bench) -> None:
    planned = await bulk.plan(bench.store, bulk.new_operation(OperationKind.CANCEL, ACME, Filter()))
    begun = await bulk.begin(bench.store, planned)
    assert (await bulk.abort(bench.store, begun.id, ACME)).state is OperationState.ABORTED
    with pytest.raises(WrongState):
        await bulk.abort(bench.store, begun.id, ACME)
