"""Saved views of lists in DynamoDB: one item each, in a partition for each tenant.

PK                        SK
tenant#<tenant>#views     <owner>#.<name>
"""

from collections.abc import Sequence

from leasehold.engines.dynamodb.clock import Clock
from leasehold.engines.dynamodb.keys import read_timestamp, timestamp
from leasehold.engines.dynamodb.table import Delete, Table
from leasehold.engines.dynamodb.wire import Item
from leasehold.model.job import TenantId
from leasehold.store.saved_views import MOST_VIEWS, SavedView


def views_pk(tenant: TenantId | None) -> str:
    """Returns the partition of a tenant's views; that of all tenants has no name in it."""
    return f"tenant#{tenant or ''}#views"


def _sk(owner: str | None, name: str) -> str:
    """Returns a key in which no owner is the beginning of another."""
    return f"{(owner or '').replace('#', '##')}#.{name}"


class DynamoSavedViews:
    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    async def list(self, tenant: TenantId | None, owner: str) -> Sequence[SavedView]:
        found = [*await self._of(tenant, owner), *await self._of(tenant, None)]
        return sorted(found, key=lambda view: (view.name, view.owner or ""))

    async def _of(self, tenant: TenantId | None, owner: str | None) -> Sequence[SavedView]:
        values = {"pk": views_pk(tenant), "begin": _sk(owner, "")}
        page = await self._table.page("#PK = :pk AND begins_with(#SK, :begin)", values, limit=MOST_VIEWS)
        return [_view(tenant, item) for item in page.items]

    async def save(self, view: SavedView) -> bool:
        others = [each for each in await self._of(view.tenant, view.owner) if each.name != view.name]
        if len(others) >= MOST_VIEWS:
            return False
        item = {
            "PK": views_pk(view.tenant),
            "SK": _sk(view.owner, view.name),
            "owner": view.owner,
            "name": view.name,
            "query": view.query,
            "created_by": view.created_by,
            "created_at": timestamp(await self._clock.now()),
        }
        await self._table.put(item)
        return True

    async def delete(self, tenant: TenantId | None, owner: str | None, name: str) -> bool:
        return await self._table.delete(Delete((views_pk(tenant), _sk(owner, name)))) is not None


def _view(tenant: TenantId | None, item: Item) -> SavedView:
    made = read_timestamp(item["created_at"])
    return SavedView(tenant, item.get("owner"), item["name"], item["query"], item.get("created_by"), made)
