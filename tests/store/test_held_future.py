"""Jobs that were not due yet when their definition was held: sleeping workers have not seen them."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from tests.store.bench import Bench
from tests.store.wake_listener import asleep
from tests.tenant_kit import HOUR

from leasehold.model.limits import Limits, Pause, Scope, ScopeKind
from leasehold.store import Wake

pytestmark = pytest.mark.abilities("wakes")

EMAILS = Scope(ScopeKind.DEFINITION, "email")
Holding = Callable[[Bench], Awaitable[Callable[[], Awaitable[None]]]]


async def paused(bench: Bench) -> Callable[[], Awaitable[None]]:
    await bench.store.pause(EMAILS, Pause("maintenance"))
    return lambda: bench.store.pause(EMAILS, None)


async def inactive(bench: Bench) -> Callable[[], Awaitable[None]]:
    await bench.store.activate("email", False)
    return lambda: bench.store.activate("email", True)


async def at_its_limit(bench: Bench) -> Callable[[], Awaitable[None]]:
    await bench.store.limit(EMAILS, Limits(max_running=1))
    claim = await bench.running("email")
    return lambda: bench.succeed(claim)


HELD = pytest.mark.parametrize("hold", [paused, inactive, at_its_limit])


@HELD
async def test_one_that_came_due_meanwhile_wakes_who_sleeps(bench: Bench, hold: Holding) -> None:
    job = await bench.enqueue("email", delay=HOUR)
    other = await bench.join("email")
    let_go = await hold(bench)
    async with asleep(bench.store, other) as listener:
        await bench.move_clock(2 * HOUR)
        await let_go()
        assert await listener.next() is Wake.WORK
    assert await bench.claimed_jobs(1, other) == [job]


@HELD
async def test_one_that_is_still_to_come_sets_the_timer_of_who_sleeps(bench: Bench, hold: Holding) -> None:
    await bench.enqueue("email", delay=HOUR)
    other = await bench.join("email")
    let_go = await hold(bench)
    async with asleep(bench.store, other) as listener:
        await let_go()
        assert await listener.next() is Wake.WORK
        next_due = (await bench.store.prepare_to_sleep(other)).next_due
    assert next_due is not None
    assert timedelta() < next_due <= HOUR
