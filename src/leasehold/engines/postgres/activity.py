"""The activity of a queue in Postgres, by one statement."""

from datetime import timedelta

from leasehold.engines.postgres.database import Database
from leasehold.model.job import TenantId
from leasehold.store import Activity, LaneActivity

# Ends of this time are counted; of fewer seconds, if more than so many jobs of one retention ended in it.
SPAN = timedelta(minutes=1)
MOST_ENDS = 2000
MOST_LANES = 100
MOST_READY = 1000


class PostgresActivity:
    _database: Database

    async def activity(self) -> Activity:
        found = await self._database.fetch(
            "administration/activity", span=SPAN, limit=MOST_ENDS, lanes=MOST_LANES, ready=MOST_READY
        )
        lanes: dict[tuple[str, str], dict[str, int]] = {}
        for row in found:
            if row["figure"] is not None:
                lanes.setdefault((row["definition"], row["tenant_id"]), {})[row["figure"]] = row["n"]
        first = found[0]
        return Activity(
            first["now"],
            first["since"],
            first["enqueued"],
            [LaneActivity(definition, TenantId(tenant), counts) for (definition, tenant), counts in lanes.items()],
            _is_whole([counts["ready"] for counts in lanes.values() if "ready" in counts]),
        )


def _is_whole(ready: list[int]) -> bool:
    return len(ready) < MOST_LANES and all(count < MOST_READY for count in ready)
