"""Advisory locks of ours.

Any role that may connect can take them. So a wait for one has a limit, and an error names the session that holds it.
"""

from typing import TYPE_CHECKING

from leasehold.engines.postgres.database import Database

if TYPE_CHECKING:
    from leasehold.engines.postgres.database import Connection

DEFINITIONS, MIGRATE = ":definitions", ":migrate"
LONGEST_WAIT = "2s"
NO_LIMIT = "0"


async def limit_waits(database: Database, connection: "Connection", longest: str) -> None:
    """Limits each wait for a lock, to the end of the transaction."""
    await database.fetch_on(connection, "session/limit_lock_waits", timeout=longest)


async def holders(database: Database, connection: "Connection", name: str) -> list[str]:
    """Describes the sessions that hold the advisory lock of this name: "pid 4711 (psql, role me)"."""
    return [
        "a prepared transaction (see pg_prepared_xacts)"
        if row["pid"] is None
        else f"pid {row['pid']} ({row['application']}, role {row['role']})"
        for row in await database.fetch_on(connection, "session/lock_holders", name=name)
    ]
