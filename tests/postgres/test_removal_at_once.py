"""The removal of a tenant while transactions are open that do not see it yet."""

import asyncio

import asyncpg
import pytest
from tests.conftest import Raw, eventually
from tests.postgres.race_tools import Connections
from tests.store.bench import Bench
from tests.store.test_operations import run
from tests.tenant_kit import ACME, HOUR

from leasehold.model.operation import OperationKind, OperationState
from leasehold.store import NewOperation

DELETE = NewOperation(OperationKind.DELETE_TENANT, ACME)
ENQUEUE = "select leasehold.enqueue($1, 'report')"
LEFT = "select count(*) from leasehold.jobs where tenant_id = $1"
EMIT = "select leasehold.emit($1, 'provider.changed')"


@pytest.fixture
async def producer(bench: Bench, connections: Connections) -> Raw:
    await bench.enqueue()
    return await connections.open()


async def test_a_removal_waits_for_transactions_that_wrote_before(bench: Bench, producer: Raw) -> None:
    transaction = producer.transaction()
    await transaction.start()
    await producer.execute(ENQUEUE, ACME)
    operation = await bench.store.operations.begin(DELETE)
    for _ in range(5):
        stepped = (await bench.store.operations.step(operation.id)).operation
        assert stepped is not None
        assert not stepped.state.ended
        error = stepped.error or ""
        await bench.move_clock(HOUR)
    assert "may still write" in error
    await transaction.commit()
    assert (await run(bench, operation)).state is OperationState.DONE
    assert await producer.fetchval(LEFT, ACME) == 0


async def test_a_removal_waits_for_every_number_before_its_horizon(bench: Bench, producer: Raw) -> None:
    """No later transaction has ended when the horizon is noted, so that the end of a snapshot would lie before it."""
    operation = await bench.store.operations.begin(DELETE)
    transaction = producer.transaction()
    await transaction.start()
    await producer.execute("select pg_current_xact_id()")
    for _ in range(5):
        stepped = (await bench.store.operations.step(operation.id)).operation
        assert stepped is not None
        assert not stepped.state.ended
        await bench.move_clock(HOUR)
    await transaction.rollback()
    assert (await run(bench, operation)).state is OperationState.DONE


async def test_a_removal_begins_after_transactions_with_a_snapshot(
    bench: Bench, producer: Raw, observer: Raw
) -> None:
    transaction = producer.transaction(isolation="repeatable_read")
    await transaction.start()
    await producer.execute(ENQUEUE, ACME)
    removal = asyncio.create_task(bench.store.operations.begin(DELETE))

    async def waits() -> bool:
        return bool(await observer.fetchval("select exists (select from pg_locks where not granted)"))

    await eventually(waits, what="the removal waits for the transaction")
    await transaction.commit()
    assert (await run(bench, await removal)).state is OperationState.DONE
    assert await producer.fetchval(LEFT, ACME) == 0


@pytest.mark.parametrize("statement", [ENQUEUE, EMIT], ids=["enqueue", "emit"])
@pytest.mark.parametrize("is_over", [False, True], ids=["begun", "over"])
async def test_an_older_snapshot_writes_nothing_for_a_tenant_that_goes(
    bench: Bench, producer: Raw, is_over: bool, statement: str
) -> None:
    transaction = producer.transaction(isolation="repeatable_read")
    await transaction.start()
    await producer.execute("select count(*) from leasehold.tenants")
    operation = await bench.store.operations.begin(DELETE)
    if is_over:
        await run(bench, operation)
    with pytest.raises(asyncpg.SerializationError):
        await producer.execute(statement, ACME)
    await transaction.rollback()
