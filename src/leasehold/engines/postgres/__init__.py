"""The Postgres engine. The driver is imported with this package, and so only when a store is opened."""

from leasehold.engines.postgres.database import Database
from leasehold.engines.postgres.migrate import standing
from leasehold.engines.postgres.store import PostgresStore


async def open_postgres(url: str, schema: str, *, strict_tenants: bool = False) -> PostgresStore:
    (await standing(url, schema)).require_usable()
    return PostgresStore(Database(url, schema), strict_tenants=strict_tenants)
