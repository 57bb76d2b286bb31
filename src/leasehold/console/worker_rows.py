"""Workers as rows of a table."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from leasehold.operations.health import FleetState, WorkerState, state_of
from leasehold.store import WorkerRecord

# Beyond so many, the definitions of a worker are folded up.
SHOWN_DEFINITIONS = 3
_TINTS = {
    WorkerState.LIVE: "succeeded",
    WorkerState.DRAINING: "canceled",
    WorkerState.LATE: "retrying",
    WorkerState.STALE: "dead-letter",
    WorkerState.GONE: "scheduled",
}


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker, its state, and whether another version is more common."""

    worker: WorkerRecord
    state: WorkerState
    is_odd_version: bool
    silent: timedelta
    left: timedelta

    @property
    def tint(self) -> str:
        return _TINTS[self.state]

    @property
    def short_id(self) -> str:
        return self.worker.id[-8:]

    @property
    def wakes(self) -> str:
        """How it learns of new jobs; empty for one that is silent or drains, and if this engine can't tell."""
        quiet = (WorkerState.STALE, WorkerState.GONE, WorkerState.DRAINING)
        if self.worker.listens is None or self.state in quiet:
            return ""
        return "listens" if self.worker.listens else "polls"


def rows_of(fleet: FleetState) -> Sequence[WorkerRow]:
    """Returns the workers, the silent ones first, then by host."""
    heard = fleet.of(WorkerState.LIVE, WorkerState.LATE, WorkerState.DRAINING)
    # If two are as common, the one that was started last is the rule, as after a deployment.
    latest = sorted(heard or fleet.workers, key=lambda each: each.started_at, reverse=True)
    versions = Counter(each.facts.version for each in latest)
    common = versions.most_common(1)[0][0] if versions else ""
    rows = [
        WorkerRow(
            each,
            state_of(each, fleet.now),
            each.facts.version != common,
            max(fleet.now - each.last_seen_at, timedelta()),
            each.lease_expires_at - fleet.now,
        )
        for each in fleet.workers
    ]
    order = (WorkerState.STALE, WorkerState.GONE, WorkerState.LATE, WorkerState.DRAINING, WorkerState.LIVE)
    return sorted(rows, key=lambda row: (order.index(row.state), row.worker.facts.host, row.worker.started_at))
