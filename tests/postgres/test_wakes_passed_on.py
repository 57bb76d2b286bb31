"""A full worker passes its wake on to sleepers that can run the rest."""

from collections.abc import Awaitable, Callable
from operator import itemgetter

import pytest
from tests.conftest import Raw
from tests.postgres.race_tools import heard_so_far
from tests.postgres.sleeping_workers import DEFINITION, TENANT, all_asleep
from tests.store.bench import Bench
from tests.tenant_kit import ACME, OTHER

from leasehold.model.job import NewJob, TenantId
from leasehold.model.limits import Limits, Pause


async def test_a_full_worker_wakes_one_that_can_run_the_rest(bench: Bench, observer: Raw) -> None:
    """The sleeper that could run what the full worker has taken comes first in line, and stays asleep."""
    full, useless, useful = await bench.join(), await bench.join("report"), await bench.join("email")
    async with all_asleep(bench.store, full, useless, useful) as listener:
        await bench.jobs.enqueue([NewJob(definition="report", priority=1), NewJob(definition="email")])
        assert [claim.definition.key for claim in await bench.claim(1, full)] == ["report"]
        await bench.store.wake_another(full)
        assert await heard_so_far(observer, listener) == {full: 1, useful: 1}


async def test_a_wake_is_passed_on_by_tenant_too(bench: Bench, observer: Raw) -> None:
    full = await bench.join("report", tenants=(ACME, OTHER))
    useless, useful = await bench.join("report", tenants=(ACME,)), await bench.join("report", tenants=(OTHER,))
    async with all_asleep(bench.store, full, useless, useful) as listener:
        await wakes_off(observer, bench.store.tenant(OTHER).enqueue([NewJob(definition="report")]))
        await bench.store.wake_another(full)
        assert await heard_so_far(observer, listener) == {useful: 1}


async def test_a_full_worker_for_all_tenants_wakes_one_for_some(bench: Bench, observer: Raw) -> None:
    full, useless = await bench.join("report", tenants=None), await bench.join("report", tenants=(OTHER,))
    useful = await bench.join("report", tenants=(ACME,))
    async with all_asleep(bench.store, full, useless, useful) as listener:
        await wakes_off(observer, bench.jobs.enqueue([NewJob(definition="report")]))
        await bench.store.wake_another(full)
        assert await heard_so_far(observer, listener) == {useful: 1}


async def test_a_wake_is_passed_on_to_one_sleeper_per_lane(bench: Bench, observer: Raw) -> None:
    full, reports, emails = await bench.join(), await bench.join("report"), await bench.join("email")
    async with all_asleep(bench.store, full, reports, emails) as listener:
        await wakes_off(observer, bench.jobs.enqueue([NewJob(definition=key) for key in ("report", "email")]))
        await bench.store.wake_another(full)
        assert await heard_so_far(observer, listener) == {reports: 1, emails: 1}


@pytest.mark.parametrize("tenants", [None, (ACME,)], ids=["all", "named"])
async def test_one_sleeper_that_can_run_all_is_woken_once(
    bench: Bench, observer: Raw, tenants: tuple[TenantId, ...] | None
) -> None:
    full, both, other = [await bench.join(tenants=tenants) for _ in range(3)]
    async with all_asleep(bench.store, full, both, other) as listener:
        await wakes_off(observer, bench.jobs.enqueue([NewJob(definition=key) for key in ("report", "email")]))
        await bench.store.wake_another(full)
        assert await heard_so_far(observer, listener) == {both: 1}


Hold = Callable[[Bench], Awaitable[object]]


async def paused_tenant(bench: Bench) -> None:
    await bench.store.pause(TENANT, Pause("maintenance"))


async def paused_definition(bench: Bench) -> None:
    await bench.store.pause(DEFINITION, Pause("maintenance"))


async def inactive_definition(bench: Bench) -> None:
    await bench.store.activate("report", False)


async def capped_tenant(bench: Bench) -> None:
    await bench.store.limit(TENANT, Limits(max_running=1))


async def capped_definition(bench: Bench) -> None:
    await bench.store.limit(DEFINITION, Limits(max_running=1))


HOLDS = [paused_tenant, paused_definition, inactive_definition, capped_tenant, capped_definition]


@pytest.mark.parametrize("hold", HOLDS)
@pytest.mark.parametrize("tenants", [None, (ACME,)], ids=["all", "named"])
async def test_a_wake_is_not_passed_on_for_work_that_is_held(
    bench: Bench, observer: Raw, hold: Hold, tenants: tuple[TenantId, ...] | None
) -> None:
    await bench.running()
    await bench.enqueue()
    await hold(bench)
    full, idle = await bench.join(tenants=tenants), await bench.join(tenants=tenants)
    async with all_asleep(bench.store, idle) as listener:
        await bench.store.wake_another(full)
        assert await heard_so_far(observer, listener) == {}


async def test_a_worker_that_passes_its_wake_on_is_awake(bench: Bench, observer: Raw) -> None:
    """Its row is still there if its fallback woke it: the next producer would choose a worker that has no room."""
    full, idle = await bench.join(), await bench.join()
    async with all_asleep(bench.store, full, idle) as listener:
        await bench.store.wake_another(full)
        await bench.enqueue()
        assert await heard_so_far(observer, listener) == {idle: 1}


async def wakes_off(observer: Raw, enqueue: Awaitable[object]) -> None:
    """As if the producer had chosen a worker that is about to pass its wake on: no sleeper hears of these jobs."""
    rows = await observer.fetch("delete from leasehold.sleepers returning *")
    await enqueue
    await observer.executemany(
        "insert into leasehold.sleepers (worker_id, definitions, tenants, wakes_at) values ($1, $2, $3, $4)",
        [
            (row["worker_id"], row["definitions"], row["tenants"], row["wakes_at"])
            for row in sorted(rows, key=itemgetter("id"))
        ],
    )
