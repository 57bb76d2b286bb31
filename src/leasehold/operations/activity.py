"""The activity of a queue, for people who watch: definitions, tenants and workers, and their rates."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from leasehold.model.limits import ScopeKind
from leasehold.operations import views
from leasehold.operations.health import FleetState, WorkerState, state_of
from leasehold.store import Activity, LaneActivity, ScopeRecord, Store
from leasehold.store.activity import ENDS, WAITING

SHOWN = 50
"""Definitions and tenants of a document, the busiest first; others are only part of the totals."""


async def read(store: Store) -> dict[str, Any]:
    """Returns a document of what happens now, by three statements on Postgres.

    Rates are jobs a second since the moment `since`; None where the engine keeps no times of ends.
    """
    seen, workers, scopes = await store.activity(), await store.workers(), await store.scopes()
    fleet = FleetState(workers, seen.now)
    served = _served(fleet)
    definitions = _rows(seen, lambda lane: lane.definition, served, _pauses(scopes, ScopeKind.DEFINITION))
    for row in definitions:
        row["workers"] = served[row["key"]]
    tenants = _rows(seen, lambda lane: lane.tenant, (), _pauses(scopes, ScopeKind.TENANT))
    return {
        "now": seen.now,
        "since": seen.since,
        "enqueued": seen.enqueued,
        "is_whole": seen.is_whole,
        "totals": _figures(seen, seen.lanes) | _fleet_figures(fleet),
        "definitions": definitions[:SHOWN],
        "tenants": tenants[:SHOWN],
        "more_definitions": max(0, len(definitions) - SHOWN),
        "more_tenants": max(0, len(tenants) - SHOWN),
        "workers": [{**views.worker(each), "state": state_of(each, seen.now)} for each in workers],
    }


def _rows(
    seen: Activity, name_of: Callable[[LaneActivity], str], known: Iterable[str], pauses: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Adds lanes up by name: those with the most jobs first, and known names without any at the end."""
    lanes: dict[str, list[LaneActivity]] = {name: [] for name in known}
    for lane in seen.lanes:
        lanes.setdefault(name_of(lane), []).append(lane)
    rows = [
        {"key": name, **_figures(seen, found), "paused_because": pauses.get(name)} for name, found in lanes.items()
    ]
    return sorted(rows, key=lambda row: (-(row["running"] + row["ready"]), -(row["succeeded"] or 0), row["key"]))


def _figures(seen: Activity, lanes: Sequence[LaneActivity]) -> dict[str, Any]:
    total: Counter[str] = Counter()
    for lane in lanes:
        total.update(lane.counts)
    seconds = None if seen.since is None else max((seen.now - seen.since).total_seconds(), 0.001)
    rates = {name: None if seconds is None else round(total[name] / seconds, 3) for name in ENDS}
    return {name: total[name] for name in WAITING} | rates


def _fleet_figures(fleet: FleetState) -> dict[str, int]:
    living = fleet.of(WorkerState.LIVE, WorkerState.LATE, WorkerState.STALE)
    return {"workers": len(living), "slots": sum(each.facts.slots for each in living)}


def _served(fleet: FleetState) -> Counter[str]:
    """Returns by definition how many living workers serve it."""
    living = fleet.of(WorkerState.LIVE, WorkerState.LATE, WorkerState.STALE)
    return Counter(key for each in living for key in each.serves.definitions)


def _pauses(scopes: Sequence[ScopeRecord], kind: ScopeKind) -> Mapping[str, str]:
    return {each.scope.key: each.paused_because for each in scopes if each.scope.kind is kind and each.paused_because}
