"""A snapshot of a worker."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from leasehold.model.job import Claim, WorkerId
from leasehold.worker.claims import ClaimState


@dataclass(frozen=True, slots=True)
class WorkerState:
    """A snapshot of a worker. Without a registration `worker` is None, and there are no claims.

    `at_rest`: nothing is claimed, and all claim loops wait for a wake or a timer. `fallback` is how often the worker
    looks for work without a wake. `heard_at` is the monotonic time of the last notification. `stuck` is the number of
    handlers that still run although their attempts are over.
    """

    worker: WorkerId | None = None
    claims: Mapping[Claim, ClaimState] = field(default_factory=dict)
    listens: bool = False
    at_rest: bool = False
    fallback: timedelta | None = None
    heard_at: float = float("-inf")
    deputy_is_set: bool = False
    stuck: int = 0
