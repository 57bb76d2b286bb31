"""Usage in Postgres: hours that `leasehold.add_up_usage` adds up, and the attempts that have ended since."""

from collections.abc import Sequence
from typing import Any

from asyncpg import Record

from leasehold.engines.postgres.database import Database
from leasehold.model.usage import Dimension, UsageQuery, UsageRow


class PostgresUsage:
    """The usage of all tenants; tenant.py reads that of one."""

    _database: Database

    async def usage(self, query: UsageQuery, limit: int) -> Sequence[UsageRow]:
        found = await self._database.fetch(
            "administration/usage", by_tenant=Dimension.TENANT in query.by, **values(query, limit)
        )
        return [usage_row(row, row["tenant_id"]) for row in found]


def values(query: UsageQuery, limit: int) -> dict[str, Any]:
    return {
        "since": query.since,
        "till": query.till,
        "step": query.step,
        "by_definition": Dimension.DEFINITION in query.by,
        "definition": query.definition,
        "limit": limit,
    }


def usage_row(row: Record, tenant: str | None) -> UsageRow:
    attempts = row["attempts"]
    unknown = attempts - row["cpu_attempts"]
    return UsageRow(tenant, row["definition"], row["at"], attempts, row["run_time"], row["cpu_time"], unknown)
