"""Statements that no job waits for: they take back the claims of workers that are gone, and delete old jobs.

They have a connection of their own. On the finishing connection, deleting two million log lines delayed finishes by
2.7 s, and a reclaimed job whose row is locked by a stopped handler's transaction would delay them for as long.
"""

from leasehold.engines.postgres.database import Database, IdleLink

LINES_AT_ONCE = 10_000
IDLE = 10.0
OTHERS = (
    *("fleet/prune_holds", "fleet/prune_decisions", "fleet/prune_events", "fleet/prune_worker_names"),
    *("fleet/prune_series_minutes", "fleet/prune_series_hours", "fleet/prune_usage"),
)


class UpkeepLink(IdleLink):
    """A link that closes its connection soon: upkeep runs about once an hour."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, IDLE)

    async def prune(self, limit: int) -> int:
        """Deletes up to `limit` jobs, each with all of its lines, by statements that each delete a bounded number."""
        while await self._count("fleet/prune_lines", limit=limit, lines=LINES_AT_ONCE) == LINES_AT_ONCE:
            continue
        pruned = await self._count("fleet/prune", limit=limit)
        for others in OTHERS:
            while await self._count(others, limit=limit) == limit:
                continue
        return pruned

    async def _count(self, name: str, **values: int) -> int:
        ((count,),) = await self.fetch(name, **values)
        return int(count)
