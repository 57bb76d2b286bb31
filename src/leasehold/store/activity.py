"""The activity of a queue: jobs that wait and run now, by definition and tenant, and the ends of the last moments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from leasehold.model.job import TenantId

WAITING = ("ready", "running")
ENDS = ("succeeded", "failed", "dead_letter", "canceled", "failed_tries")
"""Jobs by their final status, and tries that failed, those of jobs that are retried included."""


@dataclass(frozen=True, slots=True)
class LaneActivity:
    """A definition for one tenant. `counts` has the names of WAITING and ENDS, without those that are zero."""

    definition: str
    tenant: TenantId
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Activity:
    """The lanes at the moment `now` of the engine's clock.

    since     ends are counted from this moment on; None on an engine without the ability series
    enqueued  grows by one with each new job; None: this engine can't tell
    is_whole  False: there was more to look at than a look may read, so jobs are missing
    """

    now: datetime
    since: datetime | None
    enqueued: int | None
    lanes: Sequence[LaneActivity]
    is_whole: bool


class ActivityStore(Protocol):
    async def activity(self) -> Activity:
        """Looks at the jobs of all tenants by a bounded number of rows: some lanes, so many jobs of each."""
