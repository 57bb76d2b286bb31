"""One step of a scheduler: fires everything that is due, and expands events that wait."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from leasehold.store import FireRound, TriggerStore


async def fire_due_schedules(store: TriggerStore, is_over: Callable[[], bool] = lambda: False) -> FireRound:
    """Fires schedules until none is due, round by round, or until `is_over` returns true after a round."""
    fired = expanded = 0
    while True:
        done = await store.schedules.fire_due()
        fired, expanded = fired + done.fired, expanded + done.expanded
        if not done.more or is_over():
            return replace(done, fired=fired, expanded=expanded)


def is_due(next_fire: timedelta | None) -> bool:
    return next_fire is not None and next_fire <= timedelta()
