"""Restarts: how long they wait. Waits for an event: how they end."""

import asyncio

import pytest

from leasehold.runtime.supervise import RestartPolicy, wait_at_most


def test_pauses_double_up_to_the_longest() -> None:
    policy = RestartPolicy(first=0.1, longest=0.5)
    assert [policy.next_pause() for _ in range(5)] == [0.1, 0.2, 0.4, 0.5, 0.5]


def test_a_pause_stays_bounded_after_thousands_of_failures() -> None:
    policy = RestartPolicy(first=0.05, longest=1.0)
    assert [policy.next_pause() for _ in range(5000)][-1] == 1.0


def test_a_try_that_lasted_resets_the_pauses() -> None:
    policy = RestartPolicy(first=0.1, longest=5.0, lasting=3.0)
    pauses = [policy.next_pause(lasted) for lasted in (0.0, 1.0, 3.1, 0.0)]
    assert pauses == [0.1, 0.2, 0.1, 0.2]


def test_a_success_resets_the_pauses() -> None:
    policy = RestartPolicy(first=0.1, longest=5.0)
    policy.next_pause()
    policy.reset()
    assert policy.next_pause() == 0.1


def test_random_pauses_stay_within_half_of_the_pause() -> None:
    assert all(0.5 <= RestartPolicy(1.0, 1.0).next_random_pause() <= 1.5 for _ in range(100))


async def test_a_wait_ends_when_its_time_is_over() -> None:
    await wait_at_most(asyncio.Event(), 0.01)


@pytest.mark.parametrize("turns", range(4))
async def test_a_wait_canceled_with_its_event_is_canceled(turns: int) -> None:
    event = asyncio.Event()
    waits = asyncio.create_task(wait_at_most(event, 3600))
    await asyncio.sleep(0)
    event.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    if waits.cancel():
        with pytest.raises(asyncio.CancelledError):
            await waits
