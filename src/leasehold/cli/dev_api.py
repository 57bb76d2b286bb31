"""The console and the HTTP API of `leasehold dev`: on a free loopback port, with a token that ends with it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import NamedTuple

from leasehold.app import Leasehold
from leasehold.cli.api_server import address_of, bind, has_console, require_api, serving
from leasehold.errors import InvalidInput, LeaseholdError
from leasehold.model.access import Role
from leasehold.operations import sessions, tokens
from leasehold.store import Store

LIFE = timedelta(days=7)


class DevLinks(NamedTuple):
    """The address of the API with a token; a link that signs in to the console, once."""

    api: str
    console: str | None


@asynccontextmanager
async def dev_api(url: str, schema: str, store: Store) -> AsyncIterator[DevLinks | None]:
    """Serves both for the length of the block. Yields their links; None without `leasehold[api]`.

    It has no handlers, which may change at any time: the workers register their definitions.
    """
    try:
        require_api()
        bound = bind("127.0.0.1", 0)
    except InvalidInput:
        yield None
        return
    record, text = await tokens.create(store, "leasehold dev", Role.SUPER_ADMIN, life=LIFE)
    try:
        app, pages = Leasehold(url, schema=schema), has_console()
        async with serving(app.console() if pages else app.api(), bound):
            secret = await sessions.make_link(store, record.id, LIFE) if pages else None
            yield DevLinks(
                f"{address_of(bound)}/api/v1  token {text}",
                f"{address_of(bound)}/sign-in?link={secret}" if secret else None,
            )
    finally:
        with suppress(LeaseholdError):  # the database may be gone; the token expires by itself
            await tokens.revoke(store, record.id)
