"""A handler that blocks the event loop is named; one that awaits, or runs in a thread, is not."""

import asyncio
import logging
import threading
import time
from typing import Any

import pytest
from tests.conftest import eventually
from tests.worker.shop import Payload, Shop, only, wait_for

from leasehold.telemetry import Event, LoopBlocked, LoopLag
from leasehold.worker import Job
from leasehold.worker.loop_watch import EVERY, LIMIT

LONG_ENOUGH = EVERY + LIMIT + 0.3


def block() -> None:
    time.sleep(LONG_ENOUGH)


class Heard(list[Event]):
    def __call__(self, event: Event) -> None:
        self.append(event)

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self if isinstance(event, kind)]

    async def first(self, kind: type[Any]) -> Any:
        async def heard() -> bool:
            return bool(self.of(kind))

        await eventually(heard, what=kind.__name__)
        return self.of(kind)[0]


async def test_a_handler_that_blocks_the_loop_is_named_in_a_warning_and_an_event(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    async def report(job: Job, payload: Payload) -> None:
        block()

    heard = Heard()
    with caplog.at_level(logging.WARNING, "leasehold.worker"):
        async with shop.working(only(report), observe=heard):
            job = await shop.enqueue()
            blocked = await heard.first(LoopBlocked)
            await heard.first(LoopLag)
    assert (blocked.definitions, blocked.jobs) == (("report",), (job,))
    assert blocked.where is not None
    assert blocked.where.endswith("in block")
    assert blocked.seconds >= LIMIT
    (warning,) = [text for text in caplog.messages if "event loop" in text]
    assert f"it is blocked by report, job {job}" in warning


async def test_a_handler_that_blocks_after_an_await_is_named_too(shop: Shop) -> None:
    async def report(job: Job, payload: Payload) -> None:
        await asyncio.sleep(0.01)
        block()

    heard = Heard()
    async with shop.working(only(report), observe=heard):
        await shop.enqueue()
        assert (await heard.first(LoopBlocked)).definitions == ("report",)


async def test_handlers_that_await_or_run_in_threads_block_nothing(shop: Shop) -> None:
    go_on = threading.Event()

    def report(job: Job, payload: Payload) -> None:
        wait_for(go_on)

    heard = Heard()
    async with shop.working(only(report), observe=heard):
        await shop.enqueue()

        async def looked_twice() -> bool:
            return len(heard.of(LoopLag)) >= 2

        await eventually(looked_twice, what="two looks at the loop")
        go_on.set()
    assert heard.of(LoopBlocked) == []


async def test_an_idle_worker_looks_at_no_loop(shop: Shop) -> None:
    """The watch sleeps until a job begins: after the second job there are two looks at most for each."""

    async def report(job: Job, payload: Payload) -> None: ...

    heard = Heard()
    async with shop.working(only(report), observe=heard) as worker:
        await shop.ended(await shop.enqueue())
        await shop.at_rest(worker)
        looks = len(heard.of(LoopLag))
        await asyncio.sleep(3 * EVERY)
        assert len(heard.of(LoopLag)) <= max(1, looks)
