"""The lifespan of an app: open around a worker's jobs, and `job.state` in each of them."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from typing import Any

import pytest
from tests.worker.shop import SETTINGS, Payload, Shop, for_ever, only, raising

from leasehold.errors import LifespanFailed, RegistrationLost
from leasehold.store import Store
from leasehold.worker import Job, Worker
from leasehold.worker.lifespan import Lifespan

LANGUAGE = ContextVar("LANGUAGE", default="none")


class Record:
    """Records when the lifespan was opened and closed, between other things that happened."""

    def __init__(self) -> None:
        self.happened: list[str] = []

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[dict[str, int]]:
        self.happened.append("opened")
        yield {"answer": 42}
        self.happened.append("closed")

    def opening(self, open_store: Callable[[], Any]) -> Callable[[], Any]:
        async def opened() -> Store:
            self.happened.append("connected")
            store: Store = await open_store()
            return store

        return opened


async def test_its_value_is_the_state_of_every_job(shop: Shop) -> None:
    async def coroutine(job: Job, payload: Payload) -> int:
        return int(job.state["answer"])

    def thread(job: Job, payload: Payload) -> int:
        return int(job.state["answer"])

    for handler in (coroutine, thread):
        async with shop.working(only(handler), open_state=Record().lifespan):
            assert (await shop.ended(await shop.enqueue())).result == 42


async def test_without_a_lifespan_the_state_is_none(shop: Shop) -> None:
    async def report(job: Job, payload: Payload) -> bool:
        return job.state is None

    async with shop.working(only(report)):
        assert (await shop.ended(await shop.enqueue())).result is True


async def test_it_is_open_before_the_worker_connects_and_after_its_jobs(shop: Shop) -> None:
    record = Record()

    async def report(job: Job, payload: Payload) -> None:
        record.happened.append("ran")

    async with shop.working(only(report), record.opening(shop.stores), open_state=record.lifespan):
        await shop.ended(await shop.enqueue())
    happened = [word for word in record.happened if word != "connected"]
    assert happened == ["opened", "ran", "closed"]
    assert record.happened.index("opened") < record.happened.index("connected")


async def test_it_is_closed_after_the_drain(shop: Shop) -> None:
    record = Record()
    started = asyncio.Event()

    async def report(job: Job, payload: Payload) -> None:
        started.set()
        try:
            await for_ever()
        finally:
            record.happened.append("canceled")

    async with shop.working(only(report), open_state=record.lifespan):
        await shop.enqueue()
        await started.wait()
    assert record.happened == ["opened", "canceled", "closed"]


async def test_a_worker_that_joins_again_does_not_open_it_again(shop: Shop) -> None:
    record = Record()
    lost = RegistrationLost("it was evicted.", fix="Nothing was changed.")
    shop.stores.step_in("claim", raising(lost))

    async def report(job: Job, payload: Payload) -> None: ...

    async with shop.working(only(report), record.opening(shop.stores), open_state=record.lifespan):
        await shop.ended(await shop.enqueue())
    assert record.happened.count("connected") > 1
    assert record.happened.count("opened") == 1


async def test_handlers_see_the_context_variables_that_it_sets(shop: Shop) -> None:
    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        LANGUAGE.set("Esperanto")
        yield

    async def report(job: Job, payload: Payload) -> str:
        return LANGUAGE.get()

    async with shop.working(only(report), open_state=lifespan):
        assert (await shop.ended(await shop.enqueue())).result == "Esperanto"


# Errors


def failing_lifespan(at_end: bool) -> Callable[[], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        if not at_end:
            raise ConnectionRefusedError("the cache is away")
        yield
        raise ConnectionRefusedError("the cache is away")

    return lifespan


async def report(job: Job, payload: Payload) -> None: ...


async def test_a_start_that_fails_ends_the_worker_before_it_connects(shop: Shop) -> None:
    record = Record()
    worker = Worker(record.opening(shop.stores), only(report), SETTINGS, open_state=failing_lifespan(at_end=False))
    with pytest.raises(
        LifespanFailed, match=r"ConnectionRefusedError: the cache is away\. Nothing was claimed"
    ) as it:
        await worker.run()
    assert isinstance(it.value.__cause__, ConnectionRefusedError)
    assert record.happened == []


async def test_an_end_that_fails_is_logged(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "leasehold.worker"):
        async with shop.working(only(report), open_state=failing_lifespan(at_end=True)):
            await shop.ended(await shop.enqueue())
    assert [logged.message for logged in caplog.records if "lifespan" in logged.message] == [
        "the lifespan of the app failed at its end; all jobs were finished or given back before"
    ]


async def test_a_stop_cancels_a_start_that_takes_long(shop: Shop) -> None:
    opening, cleaned_up = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        opening.set()
        try:
            await for_ever()
        finally:
            cleaned_up.set()
        yield

    worker = Worker(shop.stores, only(report), SETTINGS, open_state=lifespan)
    running = asyncio.create_task(worker.run())
    await opening.wait()
    worker.stop()
    await running
    assert cleaned_up.is_set()
    assert not worker.joined.is_set()


async def test_a_second_stop_during_the_start_changes_nothing() -> None:
    started = asyncio.Event()

    @asynccontextmanager
    async def hanging() -> AsyncIterator[None]:
        started.set()
        await for_ever()
        yield

    lifespan = Lifespan(hanging)
    opening = asyncio.create_task(lifespan.open())
    await started.wait()
    lifespan.stop()
    lifespan.stop()
    async with asyncio.timeout(30):
        assert await opening is False


async def test_a_stop_before_the_start_opens_nothing() -> None:
    record = Record()
    lifespan = Lifespan(record.lifespan)
    lifespan.stop()
    assert await lifespan.open() is False
    assert record.happened == []
