"""Enqueues, commits and rollbacks at random, through every driver at once: what ran is what was committed."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.within.drivers import DRIVERS, Driver
from tests.worker.shop import Shop

from leasehold import Leasehold, Status, Tenant, TypedDefinition
from leasehold.model.job import JobId

NUMBERS = count(1)


@dataclass
class Transaction:
    """Of one driver: what was enqueued in it, by number."""

    driver: Driver
    open: bool = False
    placed: dict[int, JobId] = field(default_factory=dict)

    async def enqueue(self, door: Tenant, report: TypedDefinition[..., Any], jobs: int) -> None:
        if not self.open:
            await self.driver.begin()
            self.open = True
        numbers = [next(NUMBERS) for _ in range(jobs)]
        placed = await self.driver.enqueue(door, *(report.bind(number=number) for number in numbers))
        self.placed |= {number: each.id for number, each in zip(numbers, placed, strict=True)}

    async def end(self, *, commit: bool) -> dict[int, JobId]:
        """What is there to stay, now."""
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


STEPS = st.lists(
    st.tuples(
        st.integers(0, len(DRIVERS) - 1),
        st.one_of(st.just("commit"), st.just("rollback"), st.integers(1, 3), st.integers(1, 3)),
    ),
    max_size=30,
)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS, at_the_end=st.lists(st.booleans(), min_size=len(DRIVERS), max_size=len(DRIVERS)))
async def test_what_ran_is_what_was_committed(
    app: Leasehold,
    acme: Tenant,
    report: TypedDefinition[..., Any],
    shop: Shop,
    drivers: list[Driver],
    steps: list[tuple[int, str | int]],
    at_the_end: list[bool],
) -> None:
    """The worker's fallback is an hour: what is not woken for would hang."""
    ran: list[int] = app.ran  # type: ignore[attr-defined]
    ran.clear()
    transactions = [Transaction(driver) for driver in drivers]
    committed: dict[int, JobId] = {}
    async with shop.working(app.handlers):
        for which, step in steps:
            if isinstance(step, int):
                await transactions[which].enqueue(acme, report, step)
            else:
                committed |= await transactions[which].end(commit=step == "commit")
        for transaction, commit in zip(transactions, at_the_end, strict=True):
            committed |= await transaction.end(commit=commit)
        await shop.all_ended(list(committed.values()))
    assert sorted(ran) == sorted(committed)
    assert (await acme.jobs.counts(10))[Status.QUEUED] == 1  # the one that the fixture left for tomorrow
