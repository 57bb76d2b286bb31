"""Enqueues, commits and rollbacks at random, through every driver at once: what ran is what was committed."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.conftest import PATIENCE
from tests.within.drivers import DRIVERS, Driver
from tests.worker.shop import Shop

from leasehold import Leasehold, Status, Tenant, TypedDefinition
from leasehold.model.job import JobId

NUMBERS = count(1)


@dataclass
class Transaction:
    """The jobs of one driver: enqueued in its transaction, by number."""

    driver: Driver
    open: bool = False
    placed: dict[int, JobId] = field(default_factory=dict)

    async def enqueue(self, handle: Tenant, report: TypedDefinition[..., Any], jobs: int) -> None:
        if not self.open:
            await self.driver.begin()
            self.open = True
        numbers = [next(NUMBERS) for _ in range(jobs)]
        placed = await self.driver.enqueue(handle, *(report.bind(number=number) for number in numbers))
        self.placed |= {number: each.id for number, each in zip(numbers, placed, strict=True)}

    async def end(self, *, commit: bool) -> dict[int, JobId]:
        """Returns the jobs that are committed now."""
        if not self.open:
            return {}
        await (self.driver.commit() if commit else self.driver.rollback())
        placed, self.placed, self.open = self.placed, {}, False
        return placed if commit else {}


@pytest.fixture
async def drivers(database_url: str) -> AsyncIterator[list[Driver]]:
    async with AsyncExitStack() as stack:
        opened = [kind(database_url) for kind in DRIVERS]
        for driver in opened:
            await driver.open()
            stack.push_async_callback(driver.close)
        yield opened


# For each driver, one transaction after the other: how many jobs each of its calls enqueues, and whether it commits.
PROGRAMS = st.lists(
    st.lists(st.tuples(st.lists(st.integers(1, 3), min_size=1, max_size=2), st.booleans()), min_size=1, max_size=2),
    min_size=len(DRIVERS),
    max_size=len(DRIVERS),
)


def steps(program: list[tuple[list[int], bool]]) -> Iterator[int | bool]:
    """Enqueue so many; then commit or roll back."""
    for calls, commit in program:
        yield from calls
        yield commit


@settings(
    max_examples=8,  # of 12 drivers and some 18 transactions each
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # to shrink one takes minutes, and it is short as it is
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(programs=PROGRAMS, order=st.randoms(use_true_random=False))
async def test_the_jobs_that_ran_are_those_committed(
    app: Leasehold,
    report: TypedDefinition[..., Any],
    shop: Shop,
    drivers: list[Driver],
    programs: list[list[tuple[list[int], bool]]],
    order: Random,
) -> None:
    """Their transactions overlap. The worker's fallback is an hour: what is not woken for would hang."""
    ran: list[int] = app.ran  # type: ignore[attr-defined]
    ran.clear()
    tenant = app.tenant(f"tenant-{next(NUMBERS)}")
    handle = shop.store.tenant(tenant.id)
    left = [(Transaction(driver), list(steps(program))) for driver, program in zip(drivers, programs, strict=True)]
    committed: dict[int, JobId] = {}
    async with shop.working(app.handlers):
        while left:
            transaction, to_do = order.choice(left)
            step = to_do.pop(0)
            if isinstance(step, bool):
                committed |= await transaction.end(commit=step)
            else:
                await transaction.enqueue(tenant, report, step)
            left = [each for each in left if each[1]]
        for job in committed.values():
            record = await handle.wait_until_final(job, PATIENCE)
            assert record is not None
            assert record.status is Status.SUCCEEDED
    assert sorted(ran) == sorted(committed)
    counts = await handle.counts(1000)
    assert {status: found for status, found in counts.items() if found} == (
        {Status.SUCCEEDED: len(committed)} if committed else {}
    )
