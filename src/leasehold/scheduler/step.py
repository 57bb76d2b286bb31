"""One step of a scheduler: fires everything that is due."""

from collections.abc import Callable
from datetime import timedelta

from leasehold.store import FireRound, Schedules


async def fire_due_schedules(store: Schedules, is_over: Callable[[], bool] = lambda: False) -> FireRound:
    """Fires schedules until none is due, round by round, or until `is_over` returns true after a round."""
    fired = 0
    while True:
        done = await store.fire_due()
        fired += done.fired
        if not done.more or is_over():
            return FireRound(fired, done.more, done.next_fire)


def is_due(next_fire: timedelta | None) -> bool:
    return next_fire is not None and next_fire <= timedelta()
