"""Workers that differ in what they serve: one that has no room leaves no ready job to sleepers that can't run it."""

import asyncio
import random
from collections.abc import Awaitable, Callable

from tests.conftest import eventually
from tests.worker.shop import Doors, Shop, only

from leasehold.model.definition import Definition
from leasehold.model.job import NewJob
from leasehold.model.status import Status
from leasehold.worker import Handlers, Job

ROUNDS = 8


def handlers_for(call: Callable[[Job, object], Awaitable[None]], *keys: str) -> Handlers:
    handlers = Handlers()
    for key in keys:
        handlers.add(Definition(key, max_attempts=1))(call)
    return handlers


async def test_unequal_workers_lose_no_wake(shop: Shop) -> None:
    """Two jobs wait for each other. The worker that is woken first has one slot, and passes its wake on."""
    together = asyncio.Barrier(2)
    chance = random.Random(7)

    async def meet(job: Job, payload: object) -> None:
        async with asyncio.timeout(20):
            await together.wait()

    async with (
        shop.working(handlers_for(meet, "report", "email"), Doors(shop.url), slots=1) as both,
        shop.working(handlers_for(meet, "report"), Doors(shop.url), slots=1) as reports,
        shop.working(handlers_for(meet, "email"), Doors(shop.url), slots=1) as emails,
    ):
        for number in range(ROUNDS):
            for worker in (both, reports, emails):
                await shop.at_rest(worker)
            # The one that can run both goes first.
            await shop.observer.execute(
                "update leasehold.sleepers set id = default where cardinality(definitions) = 1"
            )
            keys = chance.sample(["report", "email"], 2)
            placed = await shop.door.enqueue([NewJob(definition=key) for key in keys])
            records = await shop.all_ended([each.id for each in placed])
            assert {record.status for record in records} == {Status.SUCCEEDED}, f"round {number}, {keys}"


async def test_a_full_worker_that_hears_a_wake_passes_it_on(shop: Shop) -> None:
    """Its sleep was found by a producer after its fallback had filled it: the wake is for the other worker."""
    release = asyncio.Event()
    started: list[str] = []

    async def hold(job: Job, payload: object) -> None:
        started.append(job.id)
        await release.wait()

    first = Doors(shop.url)
    async with (
        shop.working(only(hold), first, slots=1) as full,
        shop.working(only(hold), Doors(shop.url), slots=1) as idle,
    ):
        await shop.at_rest(full)
        await shop.at_rest(idle)
        # As if the job had been found by the first worker's fallback: nobody is notified, both rows stay.
        await shop.observer.execute("create table kept as select * from leasehold.sleepers")
        await shop.observer.execute("delete from leasehold.sleepers")
        job = await shop.enqueue()
        full.wake()
        await eventually(lambda: _holds(started, 1), what="the first job's start")
        await shop.observer.execute(
            "insert into leasehold.sleepers (worker_id, definitions) select worker_id, definitions from kept "
            "order by worker_id <> $1::uuid",
            full.state().worker,
        )
        await shop.observer.execute("select leasehold.may_sleep('{report}')")
        other = await shop.enqueue()
        await eventually(lambda: _holds(started, 2), what="the second job's start, on the worker that has room")
        release.set()
        await shop.all_ended([job, other])


async def _holds(started: list[str], count: int) -> bool:
    return len(started) == count
