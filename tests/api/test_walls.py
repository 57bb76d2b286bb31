"""Requests of one tenant with the ids of another one, in every position: generated from the OpenAPI document.

Two walls keep tenants apart: each statement names its tenant, and row-level security. The requests are sent with each
of them alone.
"""

import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import httpx
import pytest
from tests.api.conftest import ACME, GLOBEX, Client
from tests.api.generated import Request, requests_with, unhurried
from tests.conftest import Raw

from leasehold.engine import RoleNames
from leasehold.engines import engine_for
from leasehold.engines.postgres.confined import TenantDatabases
from leasehold.engines.postgres.database import Database
from leasehold.engines.postgres.statements import Statement
from leasehold.engines.postgres.store import PostgresStore
from leasehold.model.access import Role

CANARY = "canary-of-globex-7f3a"
# A viewer and an operator may do nothing that a tenant admin may not: they send fewer requests.
TURNS = {Role.VIEWER: None, Role.OPERATOR: None, Role.TENANT_ADMIN: 0, Role.WORKER: 1}
FITTING = {
    "job_id": ("job", "ended"),
    "trigger_id": ("trigger",),
    "operation_id": ("operation",),
    "token_id": ("token",),
    "tenant_id": ("tenant",),
    "tenant": ("tenant",),
    "key": ("tenant",),
    "worker_id": ("worker",),
    "fence": ("fence",),
    "cursor": ("cursor", "event", "trigger"),
    "after": ("cursor",),
    "correlation_id": ("key",),
    "dedupe_key": ("key",),
    "Idempotency-Key": ("job", "event"),
}
# A process reads tokens, tenants and definitions now and then, and remembers them.
TRIES = 3
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*Z")
MASKED = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


async def furnish(client: Client) -> dict[str, str]:
    """Gives the other tenant one of everything. Returns its ids and keys."""
    job = await client.enqueue(GLOBEX, payload={"name": CANARY}, dedupe_key="shared", correlation_id="shared")
    ended = await client.enqueue(GLOBEX, payload={"name": CANARY})
    await client.send("POST", f"/jobs/{ended}/cancel", tenant=GLOBEX)
    trigger = await client.send(
        "POST",
        "/jobs/triggers",
        {
            "label": CANARY,
            "event_name": "folder.updated",
            "definition_key": "report",
            "payload_template": {"name": CANARY},
        },
        tenant=GLOBEX,
    )
    event = await client.send("POST", "/events", {"name": "other.event", "data": {"a": CANARY}}, tenant=GLOBEX)
    begun = {"kind": "cancel", "correlation_id": CANARY}
    operation = await client.send("POST", "/operations", begun, tenant=GLOBEX)
    work = {"definitions": ["report"]}
    claimed = (await client.send("POST", "/worker/jobs/claim", work, role=Role.WORKER, tenant=GLOBEX)).json()
    named = {"worker_id": claimed["worker_id"], "fence": claimed["claims"][0]["fence"]}
    lines = {**named, "lines": [{"number": 1, "text": CANARY}]}
    beat = await client.send("POST", f"/worker/jobs/{job}/heartbeat", lines, role=Role.WORKER, tenant=GLOBEX)
    assert beat.status_code == 200, beat.text
    page = (await client.send("GET", "/jobs?limit=1", tenant=GLOBEX)).json()
    return {
        "job": job,
        "ended": ended,
        "trigger": trigger.json()["id"],
        "event": event.json()["id"],
        "operation": operation.json()["id"],
        "token": (await client.token(tenant=GLOBEX)).split("_")[1],
        "worker": named["worker_id"],
        "fence": named["fence"],
        "tenant": GLOBEX,
        "key": "shared",
        "cursor": page["next"],
    }


async def rows_of_the_other(observer: Raw) -> dict[str, list[str]]:
    """Returns all rows of the other tenant, by table."""
    tables = await observer.fetch(
        """
        select c.relname from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id'
        where c.relnamespace = 'leasehold'::regnamespace and c.relkind in ('r', 'p') order by 1
        """
    )
    found = {}
    for (table,) in tables:
        rows = await observer.fetch(f"select t::text from leasehold.{table} t where tenant_id = 'globex' order by 1")  # noqa: S608
        found[table] = [row[0] for row in rows]
    return found


def hostile_requests(document: dict[str, Any], theirs: dict[str, str], turn: int | None) -> Iterator[Request]:
    """Yields requests for each position with the ids that fit there; with a `turn`, also with one of the others."""
    names = list(theirs)
    for number, name in enumerate(names):
        for count, request in enumerate(requests_with(document, theirs[name])):
            fits = name in FITTING.get(request.position[1], ())
            if fits or (turn is not None and (count + turn) % len(names) == number):
                yield request


async def send(client: Client, request: Request, token: str, **query: str) -> httpx.Response:
    return await client.http.request(
        request.method,
        request.path,
        params=request.query | query,
        json=request.body,
        headers=request.headers | {"Authorization": f"Bearer {token}"},
    )


def of_one_tenant(document: dict[str, Any]) -> dict[str, Any]:
    """Returns the document with the operations that a super admin asks for one tenant."""
    paths = {
        path: {
            method: operation
            for method, operation in operations.items()
            if any(each["name"] == "tenant" for each in operation.get("parameters", ()))
        }
        for path, operations in document["paths"].items()
        if "/admin/" not in path
    }
    return {**document, "paths": paths}


# ------------------------------------------------------------------------------------------------------- the walls


@asynccontextmanager
async def tenant_role(url: str, superuser: Raw) -> AsyncIterator[str]:
    """Makes the roles of the schema, with the policies of row-level security. Yields the role of tenants."""
    unique = uuid4().hex[:8]
    names = RoleNames.of("leasehold", **{part: f"{part}_{unique}" for part in RoleNames.of("leasehold").by_part()})
    scripts = engine_for(url).scripts()
    await superuser.execute(scripts.create_roles(names))
    try:
        await superuser.execute(scripts.grants(names))
        yield names.tenant
    finally:
        everyone = ", ".join(names.by_part().values())
        await superuser.execute(f"drop owned by {everyone} cascade; drop role {everyone}")


def mix_up_handles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the statements of the own tenant's handles name the other tenant, in transactions of the own one."""
    confined = TenantDatabases.of
    monkeypatch.setattr(TenantDatabases, "of", lambda self, _: confined(self, ACME))
    for name in ("tenant", "triggers", "events"):
        made = getattr(PostgresStore, name)
        monkeypatch.setattr(PostgresStore, name, lambda self, _, made=made: made(self, GLOBEX))


@asynccontextmanager
async def behind(wall: str, url: str, observer: Raw, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    """Opens the API with one of the two walls."""
    if wall == "statements":
        async with unhurried(url) as client:
            yield client
        return
    confined = f"{url}{'&' if '?' in url else '?'}tenant_role="
    async with tenant_role(url, observer) as role, unhurried(confined + role) as client:
        mix_up_handles(monkeypatch)
        yield client


@pytest.mark.parametrize("wall", ["statements", "row security"])
async def test_no_request_reads_or_changes_another_tenant(
    wall: str, database_url: str, observer: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with unhurried(database_url) as furnishing:
        theirs = await furnish(furnishing)
        tokens = {await furnishing.token(role, ACME): turn for role, turn in TURNS.items()}
        above = await furnishing.token(Role.SUPER_ADMIN)
    before = await rows_of_the_other(observer)
    assert all(CANARY in str(before[table]) for table in ("jobs", "jobs_done", "triggers", "events", "job_lines"))
    async with behind(wall, database_url, observer, monkeypatch) as client:
        document, sent = client.api.openapi(), 0

        async def expect_nothing(request: Request, token: str, **query: str) -> None:
            answer = await send(client, request, token, **query)
            assert CANARY not in answer.text, (request, answer.text)
            assert CANARY not in str(answer.headers), request
            assert answer.status_code < 500, (request, answer.text)

        for token, turn in tokens.items():
            for request in hostile_requests(document, theirs, turn):
                await expect_nothing(request, token)
                sent += 1
        for request in hostile_requests(of_one_tenant(document), theirs, None):
            if "tenant" not in request.query:
                await expect_nothing(request, above, tenant=ACME)
                sent += 1
    assert sent >= 500
    assert await rows_of_the_other(observer) == before


# ------------------------------------------------------------------------------------------------- constant work


def without_id(answer: httpx.Response) -> tuple[int, str, dict[str, str]]:
    headers = {name: value for name, value in answer.headers.items() if name != "x-request-id"}
    return (
        answer.status_code,
        MOMENT.sub("…", MASKED.sub("…", answer.text)),
        {name: MASKED.sub("…", headers[name]) for name in headers},
    )


async def test_another_tenants_id_answers_and_costs_as_an_unknown_one(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    statement = Database.statement

    def noted(self: Database, name: str) -> Statement:
        asked.append(name)
        return statement(self, name)

    monkeypatch.setattr(Database, "statement", noted)

    async def ask(client: Client, request: Request, token: str) -> tuple[Any, Sequence[str]]:
        asked.clear()
        answer = await send(client, request, token)
        return without_id(answer), list(asked)

    async with unhurried(database_url) as client:
        theirs = await furnish(client)
        document, compared = client.api.openapi(), 0
        for role in (Role.TENANT_ADMIN, Role.WORKER):
            token = await client.token(role, ACME)
            for name in ("job", "ended", "trigger", "operation", "worker"):
                for request in requests_with(document, theirs[name]):
                    if request.position[0] in ("query", "header"):
                        continue
                    new = theirs[name][:-12] + uuid4().hex[-12:]  # errors quote how an id begins
                    body = json.loads(json.dumps(request.body).replace(theirs[name], new))
                    other = request._replace(path=request.path.replace(theirs[name], new), body=body)
                    for _ in range(TRIES):
                        foreign, unknown = await ask(client, request, token), await ask(client, other, token)
                        if foreign == unknown:
                            break
                    assert foreign == unknown
                    compared += 1
    assert compared > 80


async def test_a_token_names_no_other_tenant(database_url: str) -> None:
    async with unhurried(database_url) as client:
        await furnish(client)
        known = await client.send("GET", f"/jobs?tenant={GLOBEX}")
        unknown = await client.send("GET", "/jobs?tenant=nobody-has-this")
        masked = [{**each.json(), "request_id": ""} for each in (known, unknown)]
        assert (known.status_code, masked[0]) == (403, masked[1])
