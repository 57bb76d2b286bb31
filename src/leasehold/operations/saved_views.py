"""Views of lists that people save under a name: for themselves, or for all people of a tenant."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode

from leasehold.errors import InvalidInput
from leasehold.model.access import Principal
from leasehold.model.job import TenantId
from leasehold.store import SavedView, Store
from leasehold.store.saved_views import MOST_VIEWS

KEPT = ("q", "column", "limit")


def kept_of(query: str) -> str:
    """Returns the parts of an address's query that a view keeps, always in the same spelling."""
    return urlencode([(name, value) for name, value in parse_qsl(query) if name in KEPT])


def owner_of(principal: Principal) -> str:
    """Returns whose views a person has: those of their token, or of the name that the app gives them."""
    return f"token {principal.token}" if principal.token else f"name {principal.name}"


async def read(store: Store, tenant: TenantId | None, principal: Principal) -> Sequence[SavedView]:
    """Returns a person's own views of a tenant's lists, and those that are shared, by name."""
    return await store.saved_views.list(tenant, owner_of(principal))


async def save(
    store: Store, tenant: TenantId | None, principal: Principal, name: str, query: str, *, shared: bool = False
) -> SavedView:
    """Saves a view, in the place of one with the same name, and returns it as it is stored. Raises InvalidInput.

    Keeps only the search, the columns and the size of the query.
    """
    owner = None if shared else owner_of(principal)
    view = SavedView(tenant, owner, name.strip(), kept_of(query), principal.name)
    if not await store.saved_views.save(view):
        whose = "are shared" if shared else "are yours"
        raise InvalidInput(
            f"{MOST_VIEWS} views {whose}, which is the most. Nothing was saved.", fix="Delete one that is not used."
        )
    stored = await store.saved_views.list(tenant, owner_of(principal))
    return next((each for each in stored if (each.owner, each.name) == (view.owner, view.name)), view)


async def delete(
    store: Store, tenant: TenantId | None, principal: Principal, name: str, *, shared: bool = False
) -> bool:
    """Deletes a view. Returns whether there was one."""
    return await store.saved_views.delete(tenant, None if shared else owner_of(principal), name.strip())


def unknown_view(name: str, *, shared: bool) -> InvalidInput:
    """Returns the error about a view that can't be deleted, since there is none."""
    whose = "shared view" if shared else "view of yours"
    return InvalidInput(
        f"no {whose} is called {name!r}. Nothing was deleted.",
        fix="List them: leasehold views list, or GET /api/v1/views",
    )


def as_document(view: SavedView) -> dict[str, Any]:
    """Returns a view as JSON holds it, without its owner, who is its reader or all."""
    return {
        "name": view.name,
        "query": view.query,
        "shared": view.owner is None,
        "created_by": view.created_by,
        "created_at": view.created_at,
    }
