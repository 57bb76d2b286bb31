"""A transaction that is filled by many calls: all of it is there, or none."""

import asyncio

import pytest
from tests.store.bench import KEY, Bench, all_jobs, keyed
from tests.tenant_kit import OTHER

from leasehold.errors import InactiveDefinition, UnknownDefinition
from leasehold.model.job import NewJob
from leasehold.store import Store


def numbered(*numbers: int, definition: str = "report") -> list[NewJob]:
    return [NewJob(definition=definition, payload={"number": number}) for number in numbers]


async def test_jobs_of_many_calls_exist_at_the_end_in_their_order(bench: Bench) -> None:
    async with bench.jobs.bulk_transaction() as bulk:
        placed = [
            *await bulk.enqueue(numbered(1, 2)),
            *await bulk.enqueue([]),
            *await bulk.enqueue(numbered(3)),
            *await bulk.enqueue([*numbered(4), *numbered(5, definition="email")]),
        ]
        assert await all_jobs(bench.jobs) == []
    assert all(each.created for each in placed)
    assert [(await bench.job(each.id)).payload["number"] for each in placed] == [1, 2, 3, 4, 5]
    assert await bench.claimed_jobs() == [each.id for each in placed]


async def test_an_error_of_its_caller_leaves_nothing(bench: Bench) -> None:
    async def fails() -> None:
        async with bench.jobs.bulk_transaction() as bulk:
            await bulk.enqueue(numbered(1, 2))
            raise FileNotFoundError("not an error of the database")

    with pytest.raises(FileNotFoundError):
        await fails()
    assert await all_jobs(bench.jobs) == []


async def test_a_call_that_is_refused_leaves_nothing_of_the_others(bench: Bench) -> None:
    await bench.store.activate("email", False)

    async def refused() -> None:
        async with bench.jobs.bulk_transaction() as bulk:
            await bulk.enqueue(numbered(1))
            await bulk.enqueue(numbered(2, 3, definition="email"))

    with pytest.raises(InactiveDefinition):
        await refused()
    assert await all_jobs(bench.jobs) == []


async def test_after_a_refusal_it_can_go_on(bench: Bench) -> None:
    async with bench.jobs.bulk_transaction() as bulk:
        await bulk.enqueue(numbered(1))
        with pytest.raises(UnknownDefinition):
            await bulk.enqueue(numbered(2, 3, definition="no-such-thing"))
        await bulk.enqueue(numbered(4))
    assert sorted(job.payload["number"] for job in await all_jobs(bench.jobs)) == [1, 4]


async def test_a_key_that_an_earlier_call_took_is_held(bench: Bench) -> None:
    async with bench.jobs.bulk_transaction() as bulk:
        (first,) = await bulk.enqueue([NewJob(definition="report", dedupe=keyed())])
        (second,) = await bulk.enqueue([NewJob(definition="report", dedupe=keyed())])
    assert (second.id, second.created) == (first.id, False)
    assert (await bench.job(first.id)).dedupe_key == KEY


async def test_nothing_is_fine_too(bench: Bench) -> None:
    async with bench.jobs.bulk_transaction():
        pass
    assert await all_jobs(bench.jobs) == []


async def test_its_jobs_belong_to_its_tenant(bench: Bench, store: Store) -> None:
    async with store.tenant(OTHER).bulk_transaction() as bulk:
        (placed,) = await bulk.enqueue(numbered(1))
    assert await bench.jobs.get(placed.id) is None
    assert await store.tenant(OTHER).get(placed.id) is not None


@pytest.mark.parametrize("steps", range(12))
async def test_a_canceled_bulk_transaction_spares_the_next_call(bench: Bench, steps: int) -> None:
    """Cancels a bulk transaction during its BEGIN: the next user of that connection would be rolled back with it."""

    async def fill() -> None:
        async with bench.jobs.bulk_transaction():
            await asyncio.Event().wait()

    await bench.enqueue()
    for _ in range(3):
        filling = asyncio.create_task(fill())
        for _ in range(steps):
            await asyncio.sleep(0)
        filling.cancel()
        await asyncio.gather(filling, return_exceptions=True)
        (placed,) = await bench.jobs.enqueue(numbered(1))
        assert (await bench.job(placed.id)).payload == {"number": 1}
