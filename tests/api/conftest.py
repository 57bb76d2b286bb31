"""The API of an app with two tenants, on a real database, asked without a socket.

Tests run on Postgres. Those that are marked by `both_engines` run on DynamoDB, too: each route is among them.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from tests.engines_under_test import SERVERS, choose_engines

from leasehold import Job, Leasehold
from leasehold.engine import ClonedDatabases
from leasehold.model.access import Permission, Role
from leasehold.model.job import TenantId, tenant_id
from leasehold.operations import tokens

ACME, GLOBEX = tenant_id("acme"), tenant_id("globex")


@dataclass
class Client:
    """Sends requests to the API, with a token of a role."""

    app: Leasehold
    api: FastAPI
    http: httpx.AsyncClient
    texts: dict[tuple[Any, ...], str] = field(default_factory=dict)

    async def token(
        self,
        role: Role = Role.TENANT_ADMIN,
        tenant: TenantId | None = ACME,
        permissions: frozenset[Permission] | None = None,
        definitions: tuple[str, ...] | None = None,
    ) -> str:
        """Returns a token, made at the first call for these rights."""
        rights = role, tenant, permissions, definitions
        if rights not in self.texts:
            owner = None if role is Role.SUPER_ADMIN else tenant
            _, text = await tokens.create(
                *(self.app.store, f"{role.value} of {owner}", role),
                tenant=owner,
                permissions=permissions,
                definitions=definitions,
            )
            self.texts[rights] = str(text)
        return self.texts[rights]

    async def send(
        self,
        method: str,
        path: str,
        json: Any = None,
        *,
        role: Role = Role.TENANT_ADMIN,
        tenant: TenantId | None = ACME,
        headers: dict[str, str] | None = None,
        content: bytes | None = None,
    ) -> httpx.Response:
        sent = {"Authorization": f"Bearer {await self.token(role, tenant)}", **(headers or {})}
        if content is not None:
            sent.setdefault("Content-Type", "application/json")
        return await self.http.request(method, f"/api/v1{path}", json=json, headers=sent, content=content)

    async def enqueue(self, tenant: TenantId = ACME, **fields: Any) -> str:
        sent = {"definition_key": "report", "payload": {"name": "june"}, **fields}
        answer = await self.send("POST", "/jobs", sent, tenant=tenant)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])


def make_app(url: str, schema: str | None = None) -> Leasehold:
    app = Leasehold(url, schema=schema)

    @app.job(max_attempts=2)
    async def report(job: Job, name: str) -> str:
        job.log(f"about {name}")
        return name.upper()

    return app


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.definition.get_closest_marker("both_engines"):
        choose_engines(metafunc)


@pytest.fixture
def engine_name() -> str:
    return "postgres"


@pytest.fixture
def databases(engine_name: str, request: pytest.FixtureRequest) -> ClonedDatabases:
    """Not kept for the session: the next test may have another engine without being parametrized."""
    found: ClonedDatabases = request.getfixturevalue(SERVERS[engine_name])
    return found


@pytest.fixture
async def database_url(databases: ClonedDatabases) -> AsyncIterator[str]:
    name = await databases.clone()
    yield databases.url_for(name)
    await databases.drop(name)


@pytest.fixture
async def client(database_url: str) -> AsyncIterator[Client]:
    app = make_app(database_url)
    api = app.api()
    transport = httpx.ASGITransport(api)
    async with (
        app.open(),
        api.router.lifespan_context(api),
        httpx.AsyncClient(transport=transport, base_url="http://api.test") as http,
    ):
        await app.store.sync_definitions(app.handlers.definitions)
        yield Client(app, api, http)
