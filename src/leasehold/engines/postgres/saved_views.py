"""Saved views of lists in Postgres."""

from collections.abc import Sequence

from asyncpg import Record

from leasehold.engines.postgres.database import Database
from leasehold.model.job import TenantId
from leasehold.store.saved_views import MOST_VIEWS, SavedView


class PostgresSavedViews:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(self, tenant: TenantId | None, owner: str) -> Sequence[SavedView]:
        found = await self._database.fetch("views/list", tenant=tenant or "", owner=owner, limit=2 * MOST_VIEWS)
        return [_view(row) for row in found]

    async def save(self, view: SavedView) -> bool:
        saved = await self._database.fetch(
            "views/save",
            tenant=view.tenant or "",
            owner=view.owner or "",
            name=view.name,
            query=view.query,
            created_by=view.created_by,
            most=MOST_VIEWS,
        )
        return bool(saved)

    async def delete(self, tenant: TenantId | None, owner: str | None, name: str) -> bool:
        return bool(await self._database.fetch("views/delete", tenant=tenant or "", owner=owner or "", name=name))


def _view(row: Record) -> SavedView:
    tenant = TenantId(row["tenant_id"]) if row["tenant_id"] else None
    return SavedView(tenant, row["owner"] or None, row["name"], row["query"], row["created_by"], row["created_at"])
