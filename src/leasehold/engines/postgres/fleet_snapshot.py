"""Figures of the fleet in Postgres, which `leasehold.fleet_figures` measures."""

from datetime import timedelta

import orjson

from leasehold.engines.postgres.database import Database
from leasehold.model.fleet_snapshot import FleetSnapshot, read_snapshot


class PostgresSnapshots:
    _database: Database

    async def fleet_snapshot(self, max_age: timedelta) -> FleetSnapshot | None:
        ((age, figures),) = await self._database.fetch("fleet/read_fleet", max_age=max_age)
        return None if figures is None else read_snapshot(orjson.loads(figures), age)
