"""Rights: tokens, roles, the permission of every route, the resolver of an app."""

from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI, Request
from fastapi.routing import APIRoute
from tests.api.conftest import ACME, Client, make_app

from leasehold import InvalidInput, Leasehold, Principal
from leasehold.api.route import ApiRoute
from leasehold.model.access import Permission, Role
from leasehold.model.token import new_token
from leasehold.operations import tokens

GOLDEN = Path(__file__).parent / "routes_by_role.txt"
SIGN = {Role.VIEWER: "V", Role.OPERATOR: "O", Role.TENANT_ADMIN: "A", Role.SUPER_ADMIN: "S", Role.WORKER: "W"}


def routes_of(api: FastAPI) -> list[ApiRoute]:
    found = [route for route in api.routes if isinstance(route, APIRoute)]
    assert len(found) == len(api.routes)
    return [route for route in found if isinstance(route, ApiRoute)]


def table(api: FastAPI) -> str:
    """Returns one line for each route: the roles that may use it, its permission, its method and path."""
    lines = []
    for route in routes_of(api):
        may = "".join(
            sign if Principal("x", role, None).may(route.permission) else "." for role, sign in SIGN.items()
        )
        method = next(iter(route.methods or ()))
        lines.append(f"{may}  {route.permission.value:18} {method:6} {route.path}")
    return "\n".join(lines) + "\n"


def test_the_roles_of_every_route_are_those_of_the_golden_file() -> None:
    assert table(make_app("postgresql://x/y").api()) == GOLDEN.read_text()


async def test_every_route_answers_by_role_as_the_table_says(client: Client) -> None:
    guard = client.api.state.guard
    guard.limits = replace(guard.limits, stream_seconds=0)
    for route in routes_of(client.api):
        path = route.path.replace("{kind}", "tenant")
        for name in ("job_id", "trigger_id"):
            path = path.replace(f"{{{name}}}", "01989c1e-77b0-7000-8000-000000000042")
        path = path.replace("{definition_id}", "no-such").replace("{key}", "no-such")
        for role in SIGN:
            headers = {"Authorization": f"Bearer {await client.token(role)}"}
            answer = await client.http.request(next(iter(route.methods or ())), path, headers=headers)
            allowed = Principal("x", role, None).may(route.permission)
            assert (answer.status_code != 403) == allowed, (route.path, role, answer.text)


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer lh_x", "Basic bGg6eA==", "Bearer " + "a" * 5000])
async def test_nothing_is_open_without_a_valid_token(client: Client, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    for route in routes_of(client.api):
        if route.permission is not Permission.OPEN:
            method = next(iter(route.methods or ()))
            answer = await client.http.request(method, route.path, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (401, "LH-6001")


async def test_a_token_in_the_address_is_refused(client: Client) -> None:
    answer = await client.http.get("/api/v1/jobs", params={"token": await client.token()})
    assert answer.status_code == 401


async def test_a_wrong_secret_of_a_known_token_is_refused(client: Client) -> None:
    record, _ = await tokens.create(client.app.store, "ci", Role.VIEWER, tenant=ACME)
    forged = new_token(record.id)
    answer = await client.http.get("/api/v1/jobs", headers={"Authorization": f"Bearer {forged}"})
    assert answer.status_code == 401


def test_a_route_without_a_permission_is_refused() -> None:
    api = make_app("postgresql://x/y").api()
    with pytest.raises(InvalidInput, match="has no permission"):
        api.add_api_route("/open", lambda: None)


def test_the_tick_is_served_only_where_handlers_are() -> None:
    assert "/api/jobs/tick" not in {route.path for route in routes_of(Leasehold("postgresql://x/y").api())}


async def test_an_app_names_the_principal_by_its_own_means(database_url: str) -> None:
    app = make_app(database_url)

    async def resolve(request: Request) -> Principal | None:
        user = request.headers.get("x-user")
        return None if user is None else Principal(user, Role.OPERATOR, ACME)

    host, api = FastAPI(), app.api(resolve, tokens=False)
    host.mount("/queue", api)
    async with (
        api.router.lifespan_context(api),
        httpx.AsyncClient(transport=httpx.ASGITransport(host), base_url="http://host.test") as http,
    ):
        sent = {"definition_key": "report", "payload": {"name": "june"}}
        made = await http.post("/queue/api/v1/jobs", json=sent, headers={"x-user": "ada"})
        assert (made.status_code, made.json()["created_by"]) == (201, "ada")
        assert (await http.get("/queue/api/v1/jobs")).status_code == 401


async def test_another_site_can_not_use_the_cookies_of_an_app(database_url: str) -> None:
    app = make_app(database_url)

    def resolve(request: Request) -> Principal | None:
        user = request.cookies.get("user") or request.headers.get("authorization")
        return None if user is None else Principal(user, Role.OPERATOR, ACME)

    api = app.api(resolve, tokens=False)
    cookie, sent = {"Cookie": "user=ada"}, {"definition_key": "report", "payload": {"name": "june"}}
    async with (
        api.router.lifespan_context(api),
        httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://host.test") as http,
    ):
        for site in ({}, {"Origin": "https://evil.test"}, {"Origin": "http://["}, {"Sec-Fetch-Site": "same-site"}):
            refused = await http.post("/api/v1/jobs", json=sent, headers={**cookie, **site})
            assert (refused.status_code, refused.json()["code"]) == (403, "LH-6002")
        for own in ({**cookie, "Origin": "http://host.test"}, {"Authorization": "ada"}):
            assert (await http.post("/api/v1/jobs", json=sent, headers=own)).status_code == 201
