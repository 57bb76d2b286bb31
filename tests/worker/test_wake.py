"""The wake chain by itself: tokens, one timer, and nothing else."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from unittest import mock

import pytest

from leasehold.worker import wake
from leasehold.worker.wake import Reason, WakeChain

HOUR = timedelta(hours=1)
NOW = timedelta()
GUARD = 20.0


async def a_turn_of_the_loop() -> None:
    """Everything that can go on without waiting has gone on."""
    for _ in range(10):
        await asyncio.sleep(0)


async def reason(chain: WakeChain) -> Reason:
    return await asyncio.wait_for(chain.wait(), GUARD)


async def is_quiet(chain: WakeChain) -> bool:
    """Whether a dispatcher that waits now is not woken."""
    waiter = asyncio.create_task(chain.wait())
    await a_turn_of_the_loop()
    quiet = not waiter.done()
    waiter.cancel()
    return quiet


# Tokens


async def test_a_wake_reaches_one_dispatcher() -> None:
    chain = WakeChain(4, HOUR)
    dispatchers = [asyncio.create_task(chain.wait()) for _ in range(4)]
    await a_turn_of_the_loop()
    chain.wake()
    await a_turn_of_the_loop()
    assert [dispatcher.done() for dispatcher in dispatchers].count(True) == 1
    for dispatcher in dispatchers:
        dispatcher.cancel()


async def test_two_wakes_reach_two_dispatchers() -> None:
    chain = WakeChain(4, HOUR)
    dispatchers = [asyncio.create_task(chain.wait()) for _ in range(4)]
    await a_turn_of_the_loop()
    chain.wake()
    chain.wake()
    await a_turn_of_the_loop()
    assert [dispatcher.done() for dispatcher in dispatchers].count(True) == 2
    for dispatcher in dispatchers:
        dispatcher.cancel()


async def test_a_wake_waits_for_a_dispatcher_that_is_busy() -> None:
    chain = WakeChain(1, HOUR)
    chain.wake()
    assert await reason(chain) is Reason.NEWS


async def test_there_are_never_more_tokens_than_dispatchers() -> None:
    chain = WakeChain(3, HOUR)
    for _ in range(100):
        chain.wake()
    for _ in range(3):
        await reason(chain)
    assert await is_quiet(chain)


async def test_a_token_that_was_taken_makes_room_for_another() -> None:
    chain = WakeChain(1, HOUR)
    for _ in range(3):
        chain.wake()
        chain.wake()
        assert await reason(chain) is Reason.NEWS
        assert await is_quiet(chain)


async def test_a_dispatcher_that_stops_waiting_takes_no_token_with_it() -> None:
    chain = WakeChain(2, HOUR)
    gone = asyncio.create_task(chain.wait())
    await a_turn_of_the_loop()
    gone.cancel()
    chain.wake()
    assert await reason(chain) is Reason.NEWS


async def test_a_stopped_dispatcher_leaves_its_token_to_the_next() -> None:
    chain = WakeChain(2, HOUR)
    gone = asyncio.create_task(chain.wait())
    await a_turn_of_the_loop()
    chain.wake()
    gone.cancel()
    await a_turn_of_the_loop()
    assert gone.cancelled()
    assert await reason(chain) is Reason.NEWS
    assert await is_quiet(chain)


# From dispatcher to dispatcher


async def test_a_dispatcher_that_found_work_wakes_the_next() -> None:
    chain = WakeChain(2, HOUR)
    chain.pass_on()
    assert await reason(chain) is Reason.NEWS
    assert await is_quiet(chain)


async def test_a_dispatcher_that_is_alone_does_not_wake_itself() -> None:
    chain = WakeChain(1, HOUR)
    chain.pass_on()
    assert await is_quiet(chain)


# The timer


@pytest.fixture
async def delays() -> AsyncIterator[list[float]]:
    """After how many seconds the timers fire that are set from now on; none of them fires."""
    set_: list[float] = []

    def call_later(delay: float, *_: object) -> mock.Mock:
        set_.append(delay)
        return mock.Mock()

    with mock.patch.object(asyncio.get_running_loop(), "call_later", call_later):
        yield set_


@pytest.mark.parametrize(
    ("due", "seconds"),
    [(None, 60), (timedelta(seconds=3), 3), (timedelta(seconds=59), 59), (HOUR, 60), (-HOUR, 0)],
    ids=["none", "soon", "just before the fallback", "after the fallback", "past"],
)
async def test_a_timer_is_set_to_the_due_time_or_the_fallback(
    delays: list[float], due: timedelta | None, seconds: float
) -> None:
    WakeChain(1, timedelta(seconds=60)).arm(due)
    assert delays == [seconds]


async def test_a_due_time_wakes_as_due() -> None:
    chain = WakeChain(1, HOUR)
    chain.arm(timedelta(milliseconds=10))
    assert await reason(chain) is Reason.DUE


async def test_a_due_time_that_has_passed_wakes_at_once() -> None:
    chain = WakeChain(1, HOUR)
    chain.arm(-HOUR)
    assert await reason(chain) is Reason.DUE


async def test_without_a_due_time_the_fallback_wakes() -> None:
    chain = WakeChain(1, timedelta(milliseconds=10))
    chain.arm(None)
    assert await reason(chain) is Reason.FALLBACK


async def test_the_fallback_wakes_before_a_due_time_that_is_further_away() -> None:
    chain = WakeChain(1, timedelta(milliseconds=10))
    chain.arm(HOUR)
    assert await reason(chain) is Reason.FALLBACK


async def test_a_timer_wakes_one_dispatcher_once() -> None:
    chain = WakeChain(4, HOUR)
    chain.arm(NOW)
    await reason(chain)
    assert await is_quiet(chain)


async def test_an_earlier_due_time_replaces_a_later_one() -> None:
    chain = WakeChain(1, 2 * HOUR)
    chain.arm(HOUR)
    chain.arm(NOW)
    assert await reason(chain) is Reason.DUE


async def test_a_later_due_time_replaces_an_earlier_one() -> None:
    chain = WakeChain(1, 2 * HOUR)
    chain.arm(NOW)
    chain.arm(HOUR)
    assert await is_quiet(chain)
    chain.disarm()


async def test_without_a_due_time_the_timer_is_the_fallback_again() -> None:
    chain = WakeChain(1, timedelta(milliseconds=10))
    chain.arm(NOW)
    chain.arm(None)
    assert await reason(chain) is Reason.FALLBACK


async def test_a_disarmed_timer_wakes_nobody() -> None:
    chain = WakeChain(1, HOUR)
    chain.arm(NOW)
    chain.disarm()
    assert await is_quiet(chain)


async def test_a_fallback_that_is_changed_holds_from_the_next_timer_on() -> None:
    chain = WakeChain(1, HOUR)
    chain.fallback = timedelta(milliseconds=10)
    chain.arm(None)
    assert await reason(chain) is Reason.FALLBACK


# Waiting for a while


async def test_waiting_for_a_while_ends_by_itself() -> None:
    chain = WakeChain(1, HOUR)
    await asyncio.wait_for(chain.wait_at_most(0.01), GUARD)


async def test_waiting_for_a_while_ends_with_a_wake() -> None:
    chain = WakeChain(1, HOUR)
    chain.wake()
    await asyncio.wait_for(chain.wait_at_most(HOUR.total_seconds()), GUARD)
    assert await is_quiet(chain)


async def test_a_wait_in_vain_takes_no_token_with_it() -> None:
    chain = WakeChain(1, HOUR)
    await chain.wait_at_most(0)
    chain.wake()
    assert await reason(chain) is Reason.NEWS


# Standing in for another worker's timer


async def test_a_deputy_looks_after_the_due_time() -> None:
    chain = WakeChain(1, HOUR)
    chain.stand_in(NOW)
    assert await is_quiet(chain)
    assert await reason(chain) is Reason.DEPUTY


@pytest.mark.parametrize("bound", [min, max], ids=["earliest", "latest"])
async def test_a_deputy_looks_within_a_second_after_the_due_time(
    bound: Callable[..., float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never at the due time, since another worker looks then; and docs/explanation/wakes.md promises the second."""
    monkeypatch.setattr(wake, "uniform", bound)
    chain, loop = WakeChain(1, HOUR), asyncio.get_running_loop()
    with mock.patch.object(loop, "time", return_value=0.0), mock.patch.object(loop, "call_at") as call_at:
        chain.stand_in(HOUR)
    (moment, _), _ = call_at.call_args
    assert 0 < moment - HOUR.total_seconds() < 1


async def test_a_deputy_keeps_the_earliest_due_time() -> None:
    chain = WakeChain(1, HOUR)
    chain.stand_in(NOW)
    chain.stand_in(HOUR)
    assert await reason(chain) is Reason.DEPUTY


async def test_an_earlier_due_time_replaces_a_deputys_later_one() -> None:
    chain = WakeChain(1, HOUR)
    chain.stand_in(HOUR)
    chain.stand_in(NOW)
    assert await reason(chain) is Reason.DEPUTY


async def test_a_deputy_leaves_the_timer_as_it_was() -> None:
    chain = WakeChain(1, HOUR)
    chain.arm(timedelta(milliseconds=10))
    chain.stand_in(NOW)
    assert await reason(chain) is Reason.DUE
    assert await reason(chain) is Reason.DEPUTY


async def test_a_deputy_that_stands_down_wakes_no_dispatcher() -> None:
    chain = WakeChain(1, HOUR)
    chain.stand_in(NOW)
    chain.stand_down()
    assert not chain.deputy_is_set


async def test_a_chain_knows_how_many_dispatchers_wait() -> None:
    chain = WakeChain(2, HOUR)
    waiters = [asyncio.create_task(chain.wait()) for _ in range(2)]
    await a_turn_of_the_loop()
    assert chain.waiting == 2
    chain.wake()
    waiters[1].cancel()
    await a_turn_of_the_loop()
    assert chain.waiting == 0
