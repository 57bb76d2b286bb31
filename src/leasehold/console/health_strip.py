"""The strip under the header: what keeps jobs from being run, with a link. Most of the time there is none."""

from collections.abc import Callable, Coroutine, Hashable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol, TypeVar

from leasehold.engine import Severity
from leasehold.model.duration import span
from leasehold.model.job import TenantId
from leasehold.operations import health
from leasehold.operations.health import FleetState, WorkerState
from leasehold.operations.views import format_count, visible
from leasehold.store import Store

T = TypeVar("T")
# Workers that are silent for less are not worth a line, however short their leases are.
LEAST_SILENCE = timedelta(seconds=10)


class AskStore(Protocol):
    """Asks the store for a value that all visitors share for a moment."""

    async def __call__(self, key: Hashable, question: Callable[[Store], Coroutine[Any, Any, T]]) -> T: ...


@dataclass(frozen=True, slots=True)
class Line:
    """A fault and its remedy, with a link to a page of this section."""

    text: str
    fix: str
    verdict: Severity
    section: str
    href: str
    link: str


async def strip_of(shared: AskStore, root: str, base: str, tenant: TenantId | None, *, wide: bool) -> Sequence[Line]:
    """Returns the lines of a page, the worst first. With `wide`, its visitor may know the workers."""
    fleet = await shared("fleet", health.read_fleet)
    lines = []
    if not fleet.serving(tenant) and (waits := await _waits(shared, tenant)) is not False:
        fix = "Start one: leasehold worker TARGET." if wide else "The operators of this queue have to start one."
        which = "No worker is live, and jobs" if tenant is None else "No live worker runs its jobs, and some"
        text, verdict = ("wait", Severity.PROBLEM) if waits else ("may wait", Severity.WARNING)
        lines.append(Line(f"{which} {text}.", fix, verdict, "", f"{base}/jobs?q=status:ready", "See them"))
    return [*lines, *(_silent(fleet, f"{root}/all/workers") if wide else ())]


async def _waits(shared: AskStore, tenant: TenantId | None) -> bool | None:
    return await shared(("ready", tenant), lambda store: health.has_ready_jobs(store, tenant))


def _silent(fleet: FleetState, href: str) -> list[Line]:
    """Returns a line for workers that are silent and hold jobs: when the first of their leases ends."""
    silent = [
        each
        for each in fleet.of(WorkerState.STALE, WorkerState.GONE)
        if each.running and fleet.now - each.last_seen_at >= LEAST_SILENCE
    ]
    if not silent:
        return []
    first = min(silent, key=lambda each: each.lease_expires_at)
    name = f"{visible(first.facts.host)}:{first.facts.pid}"
    who = f"Worker {name} is" if len(silent) == 1 else f"{len(silent)} workers are"
    jobs = format_count(sum(each.running for each in silent), "job")
    left = first.lease_expires_at - fleet.now
    whose = "Its lease" if len(silent) == 1 else f"The lease of {name}"
    ends = f"ends in {span(left)}; then" if left.total_seconds() > 0 else "is over:"
    text = f"{who} silent for {span(fleet.now - first.last_seen_at)}, with {jobs}."
    return [Line(text, f"{whose} {ends} other workers try again.", Severity.WARNING, "workers", href, "Workers")]
