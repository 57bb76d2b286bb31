"""The wake chain by itself: tokens, one timer, and nothing else."""

import asyncio
from datetime import timedelta

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


async def test_a_dispatcher_that_is_stopped_just_as_it_is_woken_leaves_the_token_to_the_next() -> None:
    chain = WakeChain(2, HOUR)
    gone = asyncio.create_task(chain.wait())
    await a_turn_of_the_loop()
    chain.wake()
    gone.cancel()
    await a_turn_of_the_loop()
    assert gone.cancelled()
    assert await reason(chain) is Reason.NEWS
    assert await is_quiet(chain)


# The timer


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


async def test_without_a_due_time_any_longer_the_timer_is_the_fallback_again() -> None:
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


async def test_who_waited_for_a_while_in_vain_takes_no_token_with_it() -> None:
    chain = WakeChain(1, HOUR)
    await chain.wait_at_most(0)
    chain.wake()
    assert await reason(chain) is Reason.NEWS
