"""Watches jobs by one statement for all readers of a process."""

from datetime import datetime, timedelta

from leasehold.engines.postgres.database import Database
from leasehold.model.job import JobId, TenantId
from leasehold.store.changes import Changed, Watched

PAUSE = 0.5
# A change is told late, or not at all, if its transaction was open for longer than this after it was made.
OVERLAP = timedelta(seconds=5)
MOST_ROWS = 1000
MOST_NEW_OF_A_TENANT = 120
NEWEST_OPERATIONS = 20


Mark = tuple[str, str, str]
"""A tenant, a job of it, and how it has changed."""


class PostgresWatcher:
    """Compares the marks of two looks, which overlap: a mark that the look before has not seen is a change."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._since: datetime | None = None
        self._queued: int | None = None
        self._marks: frozenset[Mark] = frozenset()
        self._operated: frozenset[tuple[str, str]] = frozenset()

    async def look(self, watched: Watched) -> Changed:
        (row,) = await self._database.fetch(
            "administration/changes",
            since=self._since,
            overlap=OVERLAP,
            tenants=sorted(watched.tenants),
            everything=watched.everything,
            limit=MOST_ROWS,
            of_tenant=MOST_NEW_OF_A_TENANT,
            operations=NEWEST_OPERATIONS,
        )
        marks, is_first = frozenset(zip(row["tenants"], row["jobs"], row["marks"], strict=True)), self._since is None
        jobs = {} if is_first else _by_tenant(marks - self._marks)
        elsewhere = not is_first and row["queued"] != self._queued
        operated = frozenset(zip(row["operated_tenants"], row["operated"], strict=True))
        # An operation that is neither open nor among the newest any more has ended since.
        moved_on = frozenset() if is_first else frozenset(TenantId(tenant) for tenant, _ in operated ^ self._operated)
        self._since, self._queued, self._marks, self._operated = row["now"], row["queued"], marks, operated
        others = bool(row["cut"]) and not is_first
        return Changed(PAUSE, jobs, others=others, elsewhere=elsewhere, unlisted=moved_on)


def _by_tenant(marks: frozenset[Mark]) -> dict[TenantId, frozenset[JobId]]:
    found: dict[TenantId, set[JobId]] = {}
    for tenant, job, _ in marks:
        found.setdefault(TenantId(tenant), set()).add(JobId(job))
    return {tenant: frozenset(jobs) for tenant, jobs in found.items()}
