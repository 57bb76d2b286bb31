"""A crash of the database undoes a claim, and the same worker claims the job again: the two runs are never confused.

The tests undo the claim by hand, and end the connections of the worker as a crash would. A real server crashes in
tests/postgres/test_lost_claims.py and in tests/faults/test_undone_claims.py.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest
from tests.conftest import PATIENCE, eventually
from tests.worker.shop import Shop, Verb, only

from leasehold.errors import Unreachable
from leasehold.model.job import Claim, JobId
from leasehold.model.outcome import Verdict
from leasehold.model.status import Status
from leasehold.telemetry import Event
from leasehold.worker import Job, Snooze
from leasehold.worker.outcomes import RetryLater

UNDO = """
    update leasehold.jobs
    set status = 'queued', ready = true, attempt = attempt - 1, worker_id = null, claim_batch = 0, started_at = null
"""
END_CONNECTIONS = """
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and application_name = 'leasehold' and pid <> pg_backend_pid()
"""

End = Callable[[], Any]


async def undo_claim(shop: Shop) -> None:
    """All claims are undone, and all connections of the worker are lost."""
    await shop.observer.execute(f"{UNDO}; {END_CONNECTIONS}")  # one transaction: no claim comes in between
    async with asyncio.timeout(PATIENCE.total_seconds()):
        while True:  # the store of the test has lost its connections as well
            with suppress(Unreachable):
                await asyncio.gather(*(shop.store.workers() for _ in range(10)))
                return
            await asyncio.sleep(0.02)


class Runs:
    """A handler whose first run swallows its cancel and goes on until it is let go; the second ends when it may."""

    def __init__(self, end_of_first: End = lambda: "stale") -> None:
        self.started = 0
        self.first_was_stopped = asyncio.Event()
        self.first_may_end, self.second_may_end = asyncio.Event(), asyncio.Event()
        self._end_of_first = end_of_first

    async def handler(self, job: Job, payload: dict[str, Any]) -> Any:
        self.started += 1
        if self.started > 1:
            await self.second_may_end.wait()
            return "live"
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.first_was_stopped.set()
        await self.first_may_end.wait()
        return self._end_of_first()

    async def have_started(self, count: int) -> None:
        async def started() -> bool:
            return self.started >= count

        await eventually(started, what=f"the start of run {count}")


class Finishes:
    """Which claims were sent to `finish`, in which calls. `step_in` decides what becomes of the first call."""

    def __init__(self, first: Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]] | None = None) -> None:
        self.calls: list[list[Claim]] = []
        self._first = first

    def __call__(self, finish: Verb) -> Verb:
        async def verb(done: Sequence[tuple[Claim, Verdict]], **named: Any) -> Any:
            self.calls.append([claim for claim, _ in done])
            if len(self.calls) == 1 and self._first is not None:
                return await self._first(lambda: finish(done, **named))
            return await finish(done, **named)

        return verb

    @property
    def sent(self) -> list[Claim]:
        return [claim for call in self.calls for claim in call]


class Events:
    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, event: Event) -> None:
        self.names.append(event.event)

    async def tell(self, name: str) -> None:
        async def told() -> bool:
            return name in self.names

        await eventually(told, what=f"the event {name}, after {self.names}")


async def run_twice(shop: Shop, runs: Runs) -> JobId:
    """The first run was stopped and goes on all the same; the second runs beside it, in the same worker."""
    job = await shop.enqueue()
    await runs.have_started(1)
    await undo_claim(shop)
    async with asyncio.timeout(PATIENCE.total_seconds()):
        await runs.first_was_stopped.wait()
    await runs.have_started(2)
    return job


async def test_the_result_of_the_second_run_counts(shop: Shop) -> None:
    runs, events = Runs(), Events()
    async with shop.working(only(runs.handler), observe=events):
        job = await run_twice(shop, runs)
        runs.first_may_end.set()
        await events.tell("job.discarded")
        runs.second_may_end.set()
        record = await shop.ended(job)
    assert (record.status, record.attempt, record.result) == (Status.SUCCEEDED, 1, "live")


def snooze() -> None:
    raise Snooze(PATIENCE)


def retry_later() -> None:
    raise RetryLater(PATIENCE)


def fail() -> None:
    raise ValueError("stale")


@pytest.mark.parametrize(
    "end", [lambda: "stale", snooze, retry_later, fail], ids=["return", "snooze", "retry", "raise"]
)
async def test_a_run_that_lost_its_claim_finishes_nothing(shop: Shop, end: End) -> None:
    """However its handler ends: no finish is sent, and nothing is asked about it."""
    runs, events, finishes = Runs(end), Events(), Finishes()
    shop.stores.step_in("finish", finishes)
    async with shop.working(only(runs.handler), observe=events):
        job = await run_twice(shop, runs)
        runs.first_may_end.set()
        await events.tell("job.discarded")
        runs.second_may_end.set()
        await shop.ended(job)
    assert len(finishes.sent) == 1
    assert "tenant/attempts" not in shop.stores.statements


async def test_a_cancel_reaches_the_second_run(shop: Shop) -> None:
    """The worker knows both runs of the job, and whose claim is to be canceled."""
    runs = Runs()
    async with shop.working(only(runs.handler)):
        job = await run_twice(shop, runs)
        await shop.jobs.cancel([job])
        record = await shop.ended(job)
        runs.first_may_end.set()
    assert record.status is Status.CANCELED


async def test_a_finish_that_failed_is_not_sent_again_for_a_lost_claim(shop: Shop) -> None:
    started, under_way, may_fail, may_end = 0, asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def handler(job: Job, payload: dict[str, Any]) -> str:
        nonlocal started
        started += 1
        if started > 1:
            await may_end.wait()
        return f"run {started}"

    async def hang_and_fail(_: Callable[[], Awaitable[Any]]) -> None:
        under_way.set()
        await may_fail.wait()
        raise Unreachable("the connection was lost.", fix="It is asked again.")

    finishes, events = Finishes(hang_and_fail), Events()
    shop.stores.step_in("finish", finishes)
    async with shop.working(only(handler), observe=events):
        job = await shop.enqueue()
        async with asyncio.timeout(PATIENCE.total_seconds()):
            await under_way.wait()
        await undo_claim(shop)

        async def runs_again() -> bool:
            return started == 2

        await eventually(runs_again, what="the second run")
        may_fail.set()
        await events.tell("job.discarded")
        may_end.set()
        record = await shop.ended(job)
    assert record.result == "run 2"
    first, second = finishes.sent
    assert first != second


async def test_a_finish_with_a_lost_answer_is_reported_as_written(shop: Shop) -> None:
    """The store no longer holds the claim, because its finish was written."""
    under_way, may_fail = asyncio.Event(), asyncio.Event()

    async def handler(job: Job, payload: dict[str, Any]) -> str:
        return "done"

    async def write_and_fail(finish: Callable[[], Awaitable[Any]]) -> None:
        await finish()
        under_way.set()
        await may_fail.wait()
        raise Unreachable("the connection was lost.", fix="It is asked again.")

    finishes, events = Finishes(write_and_fail), Events()
    shop.stores.step_in("finish", finishes)
    shop.stores.count("held")
    async with shop.working(only(handler), observe=events):
        await shop.enqueue()
        async with asyncio.timeout(PATIENCE.total_seconds()):
            await under_way.wait()
        await shop.observer.execute(END_CONNECTIONS)

        async def asked() -> bool:
            return shop.stores.calls["held"] > 0

        await eventually(asked, what="the question what the worker holds")
        may_fail.set()
        await events.tell("job.ended")
    assert "job.discarded" not in events.names
    assert len(finishes.sent) == 1
