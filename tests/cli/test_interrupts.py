"""Ctrl-C ends a command without a message from asyncio about abandoned futures."""

import asyncio
import gc
import signal

import pytest

from leasehold.cli.interrupts import run


def abandon_a_failed_future() -> None:
    asyncio.get_running_loop().create_future().set_exception(ConnectionError("abandoned"))
    gc.collect()


async def interrupted() -> None:
    signal.raise_signal(signal.SIGINT)
    try:
        await asyncio.Event().wait()
    finally:
        abandon_a_failed_future()


async def abandoned_without_an_interrupt() -> None:
    abandon_a_failed_future()


@pytest.fixture
def interruptible() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.usefixtures("interruptible")
def test_futures_left_behind_by_ctrl_c_are_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(interrupted())
    assert caplog.messages == []


def test_other_futures_left_behind_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    run(abandoned_without_an_interrupt())
    assert [record.name for record in caplog.records] == ["asyncio"]
