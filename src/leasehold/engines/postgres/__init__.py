"""The Postgres engine. The driver is imported with this package, and so only when a store is opened."""

from leasehold.engines.postgres.database import Database
from leasehold.engines.postgres.migrate import standing_of
from leasehold.engines.postgres.store import PostgresStore


async def open_postgres(url: str, schema: str, *, strict_tenants: bool = False) -> PostgresStore:
    database = Database(url, schema)
    await database.find_out_about_a_pooler()
    (await standing_of(database)).require_usable()
    return PostgresStore(database, strict_tenants=strict_tenants)
