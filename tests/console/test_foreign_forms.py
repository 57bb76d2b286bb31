"""Requests that another site makes a browser send: none of them is accepted, whichever address it has."""

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx
import pytest
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Route
from tests.console.world import World, signed_in

from leasehold.api import ApiLimits
from leasehold.api.own_site import SAFE_METHODS
from leasehold.console import Console
from leasehold.model.access import Role

pytestmark = pytest.mark.asyncio(loop_scope="session")

FOREIGN: tuple[dict[str, str], ...] = (
    {},
    {"Origin": "null"},
    {"Origin": "https://evil.test"},
    {"Origin": "https://evil.test", "Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
)
# Signing in and the theme need no session, and so no token of one. They check where a form comes from.
WITHOUT_SESSION = {"/sign-in", "/theme"}
NAMES = {"tenant": "acme"}


def changing(routes: list[BaseRoute]) -> Iterator[tuple[str, str]]:
    """Yields the method and an address of each route that can change something."""
    for route in routes:
        if isinstance(route, Route | APIRoute):
            path = re.sub(r"\{(\w+)(?::\w+)?\}", lambda found: NAMES.get(found[1], "x"), route.path)
            yield from ((method, path) for method in sorted((route.methods or set()) - SAFE_METHODS - {"OPTIONS"}))


@asynccontextmanager
async def signed_in_here(world: World) -> AsyncIterator[tuple[Console, httpx.AsyncClient]]:
    """Yields a console in this process that counts no requests, and a super admin's browser."""
    console = world.app.console(limits=ApiLimits(token_rate=1e6, token_burst=10**6))
    http = signed_in(world, await world.session(Role.SUPER_ADMIN))
    async with (
        console.pages.router.lifespan_context(console.pages),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(console), base_url=world.address, cookies=http.cookies
        ) as own,
    ):
        yield console, own


async def test_no_form_of_another_site_is_accepted(world: World) -> None:
    async with signed_in_here(world) as (console, http):
        forms = list(changing(console.pages.routes))
        assert len(forms) > 30
        page = (await http.get("/t/acme/jobs")).text
        form = {"form_token": page.partition('name="form_token" value="')[2].partition('"')[0]}
        for method, path in forms:
            for headers in FOREIGN:
                answer = await http.request(method, path, data=form, headers=headers)
                said = "another site has sent this request" in answer.text.lower()
                assert (answer.status_code, said) == (403, True), (path, headers)
        assert (await http.get("/t/acme/jobs")).status_code == 200


async def test_no_form_without_its_token_is_accepted(world: World) -> None:
    own = {"Origin": world.address, "Sec-Fetch-Site": "same-origin"}
    async with signed_in_here(world) as (console, http):
        for method, path in changing(console.pages.routes):
            if path in WITHOUT_SESSION:
                continue
            for form in ({"reason": "x"}, {"form_token": "guessed"}):
                answer = await http.request(method, path, data=form, headers=own)
                said = "this form is not of your session" in answer.text.lower()
                assert (answer.status_code, said) == (403, True), path


async def test_a_session_changes_nothing_over_the_api(world: World) -> None:
    own = {"Origin": world.address, "Sec-Fetch-Site": "same-origin"}
    async with signed_in_here(world) as (console, http):
        routes = list(changing(console.api.routes))
        assert len(routes) > 30
        for method, path in routes:
            answer = await http.request(method, path, json={}, headers=own)
            assert answer.status_code == 401, (method, path)
