"""Counts of the jobs of all tenants. One process measures them now and then; no page counts them itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from leasehold.console.pages import Visit
from leasehold.console.rendering import least_text
from leasehold.errors import LeaseholdError
from leasehold.model.status import Status
from leasehold.operations import fleet


@dataclass(frozen=True, slots=True)
class AllCounts:
    """The counts as texts, without the states that are not counted."""

    texts: Mapping[Status, str]
    longest_wait: timedelta | None = None
    measured_at: datetime | None = None


async def read_all_counts(visit: Visit) -> AllCounts:
    """Reads the latest counts. There are none on an engine that does not count all jobs."""
    try:
        found = await visit.shared(("fleet counts",), fleet.read_counts)
    except LeaseholdError:  # a page must not fail for its counts
        found = None
    if found is None:
        return AllCounts({})
    texts = {status: least_text(number, is_least=status in found.at_least) for status, number in found.jobs.items()}
    return AllCounts(texts, found.longest_wait, datetime.now(UTC) - found.age)
