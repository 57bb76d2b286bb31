"""One step of a scheduler: fires everything that is due, and expands events that wait."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from leasehold.model.job import Source
from leasehold.store import Decided, FireRound, TriggerStore
from leasehold.telemetry import Listeners, TriggerDecided
from leasehold.telemetry.made_jobs import report_made_jobs


async def fire_due_schedules(
    store: TriggerStore, is_over: Callable[[], bool] = lambda: False, *, listeners: Listeners | None = None
) -> FireRound:
    """Fires schedules until none is due, round by round, or until `is_over` returns true after a round."""
    fired = expanded = 0
    while True:
        done = await store.schedules.fire_due()
        if listeners is not None:
            _report(done.decided, listeners)
        fired, expanded = fired + done.fired, expanded + done.expanded
        if not done.more or is_over():
            return replace(done, fired=fired, expanded=expanded, decided=())


def _report(decided: Sequence[Decided], listeners: Listeners) -> None:
    if listeners.wants(TriggerDecided):
        at = datetime.now(UTC)
        for each in decided:
            listeners.tell(
                TriggerDecided(
                    at=at,
                    tenant=each.tenant,
                    trigger=each.trigger,
                    kind=each.kind.value,
                    source=each.source,
                    lag=each.lag,
                    job=each.job,
                )
            )
    for source in (Source.EVENT, Source.SCHEDULE):
        made = (
            (each.tenant, each.definition, each.job)
            for each in decided
            if each.source is source and each.definition is not None and each.job is not None
        )
        report_made_jobs(listeners, source, made)


def is_due(next_fire: timedelta | None) -> bool:
    return next_fire is not None and next_fire <= timedelta()
