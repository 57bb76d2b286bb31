"""Moves crons to the fire times of a newer tzdata.

A row keeps the tzdata release that its next fire was computed by. Each scheduler looks for older ones when it starts,
and now and then: a new release may put a fire before the stored one, and no scheduler would look at it in time.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from asyncpg import Record

from leasehold.engines.postgres import trigger_rows
from leasehold.engines.postgres.database import Database
from leasehold.errors import InvalidInput
from leasehold.model.fire_plan import look_at
from leasehold.model.zone import tzdata_version

if TYPE_CHECKING:
    from leasehold.engines.postgres.database import Connection, IdleLink

log = logging.getLogger("leasehold.scheduler")

AT_ONCE = 200
_FIRST = ("", UUID(int=0))


async def renew_fire_times(database: Database, link: "IdleLink") -> int:
    """Computes next fires again that an older tzdata gave, in bounded transactions. Returns their number."""
    renewed, place = 0, _FIRST
    while True:
        async with link.transaction() as connection:
            found = await _send(
                database, connection, "outdated", after_tzdata=place[0], after=place[1], limit=AT_ONCE
            )
            fires = _next_fires(found)
            if fires["triggers"]:
                await _send(database, connection, "renew_fires", **fires)
        renewed += len(fires["triggers"])
        if len(found) < AT_ONCE:
            return renewed
        place = found[-1]["tzdata"], found[-1]["id"]


def _next_fires(found: Sequence[Record]) -> dict[str, list[Any]]:
    fires: dict[str, list[Any]] = {"triggers": [], "next_fire_ats": []}
    for row in found:
        try:
            trigger = trigger_rows.trigger(row)
        except InvalidInput as error:
            log.warning("trigger %s keeps the fire time of an older tzdata: %s", row["id"], error.happened)
            continue
        assert trigger.cursor is not None
        fires["triggers"].append(row["id"])
        fires["next_fire_ats"].append(look_at(trigger.rule, trigger.cursor, trigger.pause))
    return fires


async def _send(database: Database, connection: "Connection", name: str, /, **values: Any) -> list[Record]:
    return await database.fetch_on(connection, f"scheduler/{name}", tzdata=tzdata_version(), **values)
