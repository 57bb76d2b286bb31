"""Saves a view of the list of jobs under a name, and deletes it."""

from collections.abc import Hashable, Mapping
from urllib.parse import urlencode

from starlette.responses import Response

from leasehold.console.pages import Pages, Visit
from leasehold.model.access import Permission
from leasehold.operations import saved_views

pages = Pages()


@pages.add("POST", "/views", Permission.JOBS_READ)
async def save_view(visit: Visit) -> Response:
    """Saves the view that the form was sent from: its search, its columns and its size, not its page."""
    shared = _is_shared(visit)
    name, query = visit.form.get("name", ""), visit.form.get("query", "")
    saved = await visit.context.ask(
        lambda store: saved_views.save(store, visit.area.tenant, visit.principal, name, query, shared=shared)
    )
    return _back(visit, saved.query, "view-saved", shared)


@pages.add("POST", "/views/delete", Permission.JOBS_READ)
async def delete_view(visit: Visit) -> Response:
    """Deletes a view, and shows the list as it was."""
    shared, name = _is_shared(visit), visit.form.get("name", "")
    await visit.context.ask(
        lambda store: saved_views.delete(store, visit.area.tenant, visit.principal, name, shared=shared)
    )
    return _back(visit, saved_views.kept_of(visit.form.get("query", "")), "view-deleted", shared)


def views_key(visit: Visit) -> tuple[Hashable, ...]:
    """Returns the key under which the views of a person are remembered for a moment."""
    return "views", visit.area.tenant, saved_views.owner_of(visit.principal)


def _is_shared(visit: Visit) -> bool:
    if visit.form.get("shared") != "yes":
        return False
    visit.require(Permission.JOBS_CHANGE)
    return True


def _back(visit: Visit, query: str, done: str, shared: bool) -> Response:
    """Shows the list again. All people of a tenant see a change of a shared view at once."""
    visit.visitors.recent_values.forget(*views_key(visit)[: 2 if shared else 3])
    named: Mapping[str, str] = {"done": done}
    return visit.go(f"/jobs?{query}&{urlencode(named)}" if query else f"/jobs?{urlencode(named)}")
