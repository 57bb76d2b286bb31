"""What every worker does for all others: it takes their claims from those who are gone."""

from collections.abc import Awaitable, Callable
from functools import partial
from random import random
from typing import Any

from leasehold.model.job import Claim
from leasehold.model.outcome import LeaseLost, Verdict, decided
from leasehold.store import Store
from leasehold.worker.finish import finish_all

RECLAIMED_AT_ONCE = 100


async def _as_it_is(asked: Awaitable[Any]) -> Any:
    return await asked


async def reclaim_orphans(
    store: Store, in_time: Callable[[Awaitable[Any]], Awaitable[Any]] = _as_it_is
) -> list[tuple[Claim, Verdict]]:
    """The claims of the dead, each with what becomes of its job: it is queued again, or given up."""
    buried: list[tuple[Claim, Verdict]] = []
    while orphans := await in_time(store.evict(RECLAIMED_AT_ONCE)):
        lost = [(claim, decided(LeaseLost(), claim, random())) for claim in orphans]
        written, fenced = await in_time(finish_all(partial(store.finish, reclaimed=True), lost))
        ended = [(claim, verdict) for claim, verdict in written if claim not in fenced]
        if not ended:  # others were first, or none of these rows can be ended: they would be found again for ever
            break
        buried += ended
    return buried
