"""Figures of jobs over time in Postgres, which `leasehold.roll_up` adds up."""

from collections.abc import Sequence
from typing import Any

from asyncpg import Record

from leasehold.engines.postgres.database import Database
from leasehold.model.series import Figure, Progress, Window


class PostgresSeries:
    """The figures of all tenants; tenant.py reads those of one."""

    _database: Database

    async def series_progress(self) -> Progress:
        ((now, minutes, hours),) = await self._database.fetch("administration/series_progress")
        return Progress(now, minutes, hours)

    async def figures_of_tenants(self, tenants: Sequence[str], definition: str, window: Window) -> Sequence[Figure]:
        name = of_window("administration/series", window)
        found = await self._database.fetch(name, tenants=tenants, definition=definition, **bounds(window))
        return [figure(row) for row in found]

    async def figures_of_definitions(self, definitions: Sequence[str], window: Window) -> Sequence[Figure]:
        name = of_window("administration/series_definitions", window)
        return [figure(row) for row in await self._database.fetch(name, definitions=definitions, **bounds(window))]

    async def busiest_tenants(self, window: Window, limit: int) -> Sequence[str]:
        name = of_window("administration/busiest_tenants", window)
        found = await self._database.fetch(name, since=window.since, till=window.till, limit=limit)
        return [row["tenant_id"] for row in found]


def of_window(name: str, window: Window) -> str:
    """Returns the statement for the rows that the window needs."""
    return f"{name}_{'hours' if window.of_hours else 'minutes'}"


def bounds(window: Window) -> dict[str, Any]:
    return {"since": window.since, "till": window.till, "step": window.step}


def figure(row: Record) -> Figure:
    return Figure(row["key"], row["at"], row["figure"], row["n"])
