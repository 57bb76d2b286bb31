"""Whether the server lives, whether it can serve, and who asks."""

from collections.abc import Mapping

from fastapi import Request, Response

from leasehold.api.context import Asked, Guard
from leasehold.api.documents import OkDocument, WhoDocument
from leasehold.api.route import Routes, answer
from leasehold.errors import LeaseholdError, Unreachable
from leasehold.model.access import Permission
from leasehold.store import Store, wire

routes = Routes("health")


@routes.add("GET", "/health", Permission.OPEN, OkDocument)
async def check_health() -> Response:
    """Answers while the server runs. It tells nothing else, and needs no token."""
    return answer({"ok": True})


@routes.add("GET", "/ready", Permission.OPEN, OkDocument)
async def check_readiness(request: Request) -> Response:
    """Answers 200 if the database can be reached and has its schema, else 503. It needs no token.

    The database is asked at most once a second: all callers share the answer. The reason may name the database, so
    only the log has it, and the port of the server's metrics.
    """
    guard: Guard = request.app.state.guard
    try:
        await guard.readiness.require()
    except LeaseholdError as error:
        raise Unreachable("the server is not ready. Nothing was done.", fix="Ask again after a moment.") from error
    return answer({"ok": True})


@routes.add("GET", "/me", Permission.ANYONE, WhoDocument)
async def show_principal(context: Asked) -> Response:
    """Tells the principal of the token that is sent, and the abilities of the engine.

    Without `series` there are no charts: `GET /jobs/series` answers 422.
    """
    known, abilities = context.principal, await context.ask(_abilities)
    document = {"name": known.name, "role": known.role.value, "tenant_id": known.tenant, "abilities": abilities}
    return answer({**document, "token": known.token, "permissions": sorted(known.permissions or ())})


async def _abilities(store: Store) -> Mapping[str, bool]:
    return wire.write_abilities(store.abilities)
