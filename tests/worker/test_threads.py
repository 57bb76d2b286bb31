"""The threads that handlers run in."""

import gc
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import Future

import pytest
from tests.conftest import PATIENCE
from tests.worker import sample_handlers
from tests.worker.shop import Processes, Shop

from leasehold.model.status import Status
from leasehold.worker.threads import Threads

SECONDS = PATIENCE.total_seconds()


@pytest.fixture
def threads() -> Iterator[Threads]:
    made = Threads(3, "handler")
    yield made
    made.shutdown(cancel_futures=True)


def held(threads: Threads, count: int, go_on: threading.Event) -> list["Future[bool]"]:
    """So many calls that have begun and wait."""
    begun = threading.Semaphore(0)

    def call() -> bool:
        begun.release()
        return go_on.wait(SECONDS)

    calls = [threads.submit(call) for _ in range(count)]
    assert all(begun.acquire(timeout=SECONDS) for _ in range(count))
    return calls


def test_a_call_has_its_result_or_its_error(threads: Threads) -> None:
    assert threads.submit(divmod, 7, 2).result(SECONDS) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        threads.submit(divmod, 7, 0).result(SECONDS)


def test_an_idle_thread_is_used_again(threads: Threads) -> None:
    used = {threads.submit(threading.get_ident).result(SECONDS) for _ in range(20)}
    assert len(used) <= 3
    assert sum(thread.name.startswith("handler") for thread in threading.enumerate()) <= 3


def test_calls_run_side_by_side_and_the_next_follows_an_end(threads: Threads) -> None:
    go_on = threading.Event()
    running = held(threads, 3, go_on)
    next_one = threads.submit(threading.get_ident)
    assert not next_one.running()
    go_on.set()
    assert next_one.result(SECONDS)
    assert all(call.result(SECONDS) for call in running)


def test_a_burst_begins_a_thread_for_each_call_though_one_is_idle(threads: Threads) -> None:
    threads.submit(int).result(SECONDS)
    go_on = threading.Event()
    held(threads, 3, go_on)
    go_on.set()


def test_a_call_that_was_canceled_before_its_turn_is_not_made(threads: Threads) -> None:
    go_on, made = threading.Event(), threading.Event()
    held(threads, 3, go_on)
    canceled, last = threads.submit(made.set), threads.submit(int)
    assert canceled.cancel()
    go_on.set()
    last.result(SECONDS)
    assert not made.is_set()


def test_after_the_end_idle_threads_are_gone_and_no_call_is_taken(threads: Threads) -> None:
    idle = threads.submit(threading.current_thread).result(SECONDS)
    threads.shutdown()
    idle.join(SECONDS)
    assert not idle.is_alive()
    with pytest.raises(RuntimeError):
        threads.submit(int)


def test_calls_that_still_wait_at_the_end_are_canceled(threads: Threads) -> None:
    go_on = threading.Event()
    running = held(threads, 3, go_on)
    waiting = threads.submit(int)
    threads.shutdown(cancel_futures=True)
    assert waiting.cancelled()
    go_on.set()
    assert all(call.result(SECONDS) for call in running)


def test_an_error_that_was_read_leaves_no_garbage(threads: Threads) -> None:
    class Unlucky(Exception): ...

    def call() -> None:
        raise Unlucky

    def remembered() -> "weakref.ref[BaseException]":
        error = threads.submit(call).exception(SECONDS)
        assert error is not None
        return weakref.ref(error)

    gc.disable()
    try:
        gone = remembered()
        threads.submit(int).result(SECONDS)  # the thread has let go of it by now
        assert gone() is None
    finally:
        gc.enable()


APP = """
import asyncio
from datetime import timedelta
from pathlib import Path

from tests.worker import sample_handlers

from leasehold import WorkerSettings


async def main():
    folder = Path({folder!r})
    async with sample_handlers.app.open(worker=WorkerSettings(grace=timedelta(milliseconds=100))):
        while not (folder / "notes").exists():
            await asyncio.sleep(0.02)


asyncio.run(main())
"""


async def test_a_thread_past_the_grace_lets_the_users_process_end(shop: Shop, processes: Processes) -> None:
    """Nothing here ends the process by force, as `leasehold worker` does."""
    await shop.store.sync_definitions(sample_handlers.handlers.definitions)
    job = await shop.enqueue("hang_in_thread", payload=processes.payload)
    app = processes.python("-c", APP.format(folder=str(processes.folder)))
    await processes.noted("began")
    assert await app.code() == 0
    assert (await shop.job(job)).status is Status.QUEUED
