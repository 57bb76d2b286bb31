"""What every worker does for all others: it takes their claims from those who are gone."""

from collections.abc import Awaitable, Callable
from random import random
from typing import Any

from leasehold.model.job import Claim
from leasehold.model.outcome import LeaseLost, Verdict, decide
from leasehold.store import Store

BURIED_AT_ONCE = 100


async def _as_it_is(asked: Awaitable[Any]) -> Any:
    return await asked


async def bury(
    store: Store, in_time: Callable[[Awaitable[Any]], Awaitable[Any]] = _as_it_is
) -> list[tuple[Claim, Verdict]]:
    """The claims of the dead, each with what becomes of its job: it is queued again, or given up."""
    buried: list[tuple[Claim, Verdict]] = []
    while orphans := await in_time(store.evict(BURIED_AT_ONCE)):
        lost = [(claim, decide(LeaseLost(), claim, random())) for claim in orphans]
        fenced = await in_time(store.finish(lost))
        buried += [(claim, verdict) for claim, verdict in lost if claim not in fenced]
    return buried
