"""A handler's transaction whose attempt is canceled, times out or loses its lease: nothing of it is kept."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, insert
from sqlalchemy.orm import Session
from tests.conftest import PATIENCE, eventually
from tests.tenant_kit import HOUR
from tests.worker.effects import effects, effects_table, write
from tests.worker.shop import AT_ONCE, SHORT, Shop, only, session_of

from leasehold.model.definition import Definition
from leasehold.model.status import AttemptStatus, Status
from leasehold.store import CancelAnswer, Subscription, WorkerFacts
from leasehold.telemetry import Event, JobEnded
from leasehold.worker import Handlers, Job

pytestmark = pytest.mark.usefixtures("effects_table")


# The first of two attempts hangs after its write; the second has to end within this time.
TIMEOUT = timedelta(seconds=3)


async def test_a_cancel_does_not_wait_for_the_transaction_and_rolls_it_back(shop: Shop) -> None:
    wrote = asyncio.Event()

    async def handler(job: Job, payload: Any) -> None:
        async with job.transaction() as connection:
            await write(connection, job)
            wrote.set()
            await asyncio.Event().wait()

    async with shop.working(only(handler)):
        job = await shop.enqueue()
        await wrote.wait()
        answer = await asyncio.wait_for(shop.jobs.cancel([job]), PATIENCE.total_seconds())
        assert answer == {job: CancelAnswer.REQUESTED}
        assert (await shop.ended(job)).status is Status.CANCELED
    assert await effects(shop) == []
    assert await shop.statuses(job) == [AttemptStatus.CANCELED]


async def test_a_lease_lost_during_a_rollback_ends_the_attempt(shop: Shop) -> None:
    """The server does not answer the rollback, and the run is stopped a second time: nobody waits for it."""
    wrote, rolls_back = asyncio.Event(), asyncio.Event()

    async def handler(job: Job, payload: Any) -> None:
        async with job.transaction():
            pass
        wrote.set()
        await asyncio.Event().wait()

    def never_answer(original: Callable[..., Any]) -> Callable[..., Any]:
        def transaction(claim: Any, given: Any) -> Any:
            made = original(claim, given)

            async def rollback() -> None:
                rolls_back.set()
                await asyncio.Event().wait()

            made.rollback = rollback
            return made

        return transaction

    shop.stores.step_in("transaction", never_answer)
    async with shop.working(only(handler)) as worker:
        job = await shop.enqueue()
        await wrote.wait()
        await shop.jobs.cancel([job])
        await rolls_back.wait()
        session = session_of(worker)
        (claim,) = session.ledger.attempts
        session.ledger.lose(claim)

        async def forgotten() -> bool:
            return not session.ledger.attempts

        await eventually(forgotten, what="the end of the run")


async def test_a_timeout_rolls_back(shop: Shop) -> None:
    wrote: list[int] = []

    async def handler(job: Job, payload: Any) -> None:
        async with job.transaction() as connection:
            await write(connection, job)
        wrote.append(job.attempt)
        if job.attempt == 1:
            await asyncio.Event().wait()

    async with shop.working(only(handler, timeout=TIMEOUT, backoff=AT_ONCE)):
        job = await shop.enqueue()
        await shop.ended(job)
    assert wrote == [1, 2]
    assert await effects(shop) == [(job, "2")]
    assert await shop.statuses(job) == [AttemptStatus.TIMEOUT, AttemptStatus.SUCCEEDED]


async def test_a_handler_that_returns_after_its_timeout_has_not_succeeded(shop: Shop) -> None:
    """Its writes were rolled back, so its result must not be kept."""

    async def stubborn(job: Job, payload: Any) -> str:
        async with job.transaction() as connection:
            await write(connection, job)
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "fine"

    definition = Definition("stubborn", timeout=timedelta(milliseconds=200), max_attempts=1)
    handlers = Handlers()
    handlers.add(definition)(stubborn)
    async with shop.working(handlers):
        job = await shop.enqueue("stubborn")
        record = await shop.ended(job)
    assert (record.status, record.result) == (Status.DEAD_LETTER, None)
    assert await effects(shop) == []
    assert await shop.statuses(job) == [AttemptStatus.TIMEOUT]


async def test_a_handler_that_returns_although_it_was_canceled_is_canceled(shop: Shop) -> None:
    began = asyncio.Event()

    async def stubborn(job: Job, payload: Any) -> str:
        async with job.transaction() as connection:
            await write(connection, job)
        began.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "fine"

    async with shop.working(only(stubborn)):
        job = await shop.enqueue()
        await began.wait()
        await shop.jobs.cancel([job])
        record = await shop.ended(job)
    assert (record.status, record.result) == (Status.CANCELED, None)
    assert await effects(shop) == []


async def test_a_shutdown_rolls_back_and_gives_the_job_back_at_no_cost(shop: Shop) -> None:
    wrote = asyncio.Event()

    async def handler(job: Job, payload: Any) -> None:
        async with job.transaction() as connection:
            await write(connection, job)
            wrote.set()
            await asyncio.Event().wait()

    async with shop.working(only(handler), grace=timedelta()):
        job = await shop.enqueue()
        await wrote.wait()
    record = await shop.job(job)
    assert (record.status, record.attempt, record.free_attempts) == (Status.QUEUED, 1, 1)
    assert await effects(shop) == []


async def test_an_attempt_that_lost_its_claim_writes_nothing(shop: Shop) -> None:
    """Another worker has the job: as after a whole lease without a word."""
    happened: list[str] = []
    other = await shop.store.join(Subscription(("other",)), WorkerFacts("elsewhere", 1), HOUR)

    async def handler(job: Job, payload: Any) -> None:
        async with job.transaction() as connection:
            await write(connection, job)
            await shop.observer.execute(
                "update leasehold.jobs set attempt = attempt + 1, worker_id = $1", other.worker
            )

    async def discarded() -> bool:
        return "job.discarded" in happened

    async with shop.working(only(handler), observe=lambda event: happened.append(event.event)):
        job = await shop.enqueue()
        await eventually(discarded, what="the loss")
        record = await shop.job(job)
    assert (record.status, record.attempt) == (Status.RUNNING, 2)
    assert await effects(shop) == []


async def test_a_lost_registration_writes_nothing_even_if_no_one_claimed(shop: Shop) -> None:
    async def handler(job: Job, payload: Any) -> None:
        async with job.transaction() as connection:
            await write(connection, job)
            if job.attempt == 1:
                await shop.observer.execute("delete from leasehold.workers")

    async with shop.working(only(handler, backoff=AT_ONCE), leases=SHORT):
        job = await shop.enqueue()
        record = await shop.ended(job)
    assert await effects(shop) == [(job, str(record.attempt))]
    assert record.attempt > 1


async def test_a_commit_whose_answer_is_lost_is_looked_up(shop: Shop) -> None:
    committed = asyncio.Event()

    async def handler(job: Job, payload: Any) -> str:
        async with job.transaction() as connection:
            await write(connection, job)
        return "kept"

    def lose_the_answer(original: Callable[..., Any]) -> Callable[..., Any]:
        def transaction(claim: Any, given: Any) -> Any:
            made = original(claim, given)
            commit = made.commit

            async def lost() -> None:
                await commit()
                committed.set()
                raise ConnectionResetError("the answer was lost")

            made.commit = lost
            return made

        return transaction

    ended: list[Event] = []
    shop.stores.step_in("transaction", lose_the_answer)
    async with shop.working(only(handler), observe=ended.append):
        job = await shop.enqueue()
        record = await shop.ended(job)
    assert committed.is_set()
    assert (record.status, record.result, record.attempt) == (Status.SUCCEEDED, "kept", 1)
    assert [event.status for event in ended if isinstance(event, JobEnded)] == [Status.SUCCEEDED]
    assert await effects(shop) == [(job, "1")]


async def test_a_connection_that_breaks_at_the_commit_rolls_back(shop: Shop) -> None:
    async def handler(job: Job, payload: Any) -> None:
        async with job.transaction() as connection:
            await write(connection, job)
            pid = connection.get_server_pid()
        if job.attempt == 1:
            await shop.observer.execute("select pg_terminate_backend($1)", pid)

    async with shop.working(only(handler, backoff=AT_ONCE)):
        job = await shop.enqueue()
        record = await shop.ended(job)
    assert (record.status, record.attempt) == (Status.SUCCEEDED, 2)
    assert await effects(shop) == [(job, "2")]


async def test_a_thread_that_ran_too_long_rolls_back_when_it_ends(shop: Shop, engine: Engine) -> None:
    go, wrote = threading.Event(), list[int]()

    def handler(job: Job, payload: Any) -> None:
        with job.transaction(Session(engine)) as session:
            session.execute(insert(effects_table).values(job=job.id, attempt=str(job.attempt)))
        wrote.append(job.attempt)
        if job.attempt == 1:
            go.wait(PATIENCE.total_seconds())

    async with shop.working(only(handler, timeout=TIMEOUT, backoff=AT_ONCE)):
        job = await shop.enqueue()
        record = await shop.ended(job)
        go.set()

        async def none_is_open() -> bool:
            return bool(engine.pool.checkedout() == 0)  # type: ignore[attr-defined]

        await eventually(none_is_open, what="the rollback")
    assert (record.attempt, wrote) == (2, [1, 2])
    assert await effects(shop) == [(job, "2")]
