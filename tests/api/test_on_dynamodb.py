"""The API on DynamoDB, where each request costs money, and some abilities are missing."""

from itertools import product
from typing import Any
from uuid import uuid4

import pytest
from tests.api.conftest import ACME, GLOBEX, Client
from tests.api.generated import requests_with, unhurried
from tests.api.test_access import routes_of
from tests.api.test_walls import MASKED, furnish

from leasehold import Principal
from leasehold.engines.dynamodb.client import Client as DynamoClient
from leasehold.model.access import Role

# By the kind of an id, what stands before it in the path of a route.
PLACES = {"job": "/jobs/", "trigger": "/jobs/triggers/", "operation": "/operations/"}


@pytest.fixture
def engine_name() -> str:
    return "dynamodb"


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The requests that are sent to DynamoDB."""
    sent: list[str] = []
    send = DynamoClient._send

    async def noted(self: DynamoClient, operation: str, parameters: Any) -> Any:
        sent.append(operation)
        return await send(self, operation, parameters)

    monkeypatch.setattr(DynamoClient, "_send", noted)
    return sent


async def test_a_refused_request_costs_nothing(client: Client, requests: list[str]) -> None:
    """Once the token is known, its rights are: nothing is read to refuse."""
    refused = 0
    for role in (Role.VIEWER, Role.WORKER):
        headers = {"Authorization": f"Bearer {await client.token(role, ACME)}"}
        assert (await client.http.get("/api/v1/me", headers=headers)).status_code == 200
        requests.clear()
        for route in routes_of(client.api):
            if not Principal("x", role, None).may(route.permission):
                answer = await client.http.request(next(iter(route.methods or ())), route.path, headers=headers)
                assert (answer.status_code, answer.json()["code"]) == (403, "LH-6002")
                refused += 1
        assert (await client.http.get("/api/v1/jobs?tenant=globex", headers=headers)).status_code == 403
        assert requests == []
    assert refused > 60


async def test_another_tenants_id_answers_like_an_unknown_one(database_url: str) -> None:
    """By each route that has an id in its path. The tests of the walls on Postgres try all other positions, too."""
    async with unhurried(database_url) as client:
        theirs = await furnish(client)
        begun = await client.send("POST", "/operations", {"kind": "retry"}, tenant=GLOBEX)
        theirs["operation"] = begun.json()["id"]
        compared = set()
        for role, (name, place) in product((Role.TENANT_ADMIN, Role.WORKER), PLACES.items()):
            headers = {"Authorization": f"Bearer {await client.token(role, ACME)}"}
            for _, method, path, query, body, _ in requests_with(client.api.openapi(), theirs[name]):
                is_work = path.startswith("/api/v1/worker")
                fits = not query and f"{place}{theirs[name]}" in path and is_work == (role is Role.WORKER)
                if fits and (method, path) not in compared:
                    compared.add((method, path))
                    other = path.replace(theirs[name], str(uuid4()))
                    answers = [
                        await client.http.request(method, to, json=body, headers=headers) for to in (path, other)
                    ]
                    known, unknown = ((each.status_code, MASKED.sub("…", each.text)) for each in answers)
                    assert known == unknown
        assert len(compared) >= 21


async def test_charts_are_refused_and_the_abilities_say_so(client: Client) -> None:
    chart = await client.send("GET", "/jobs/series?window=15m")
    assert (chart.status_code, chart.json()["code"]) == (422, "LH-1000")
    assert "not kept in DynamoDB" in chart.json()["detail"]
    assert "GET /jobs/summary" in chart.json()["fix"]
    abilities = (await client.send("GET", "/me")).json()["abilities"]
    assert (abilities["series"], abilities["schedules"]) == (False, True)
    assert (await client.http.get("/api/v1/ready")).status_code == 200


async def test_usage_is_told(client: Client) -> None:
    used = await client.send("GET", "/usage")
    assert (used.status_code, used.json()["total"]["attempts"]) == (200, 0)
    assert (await client.send("GET", "/usage.csv")).text.startswith("definition_key,attempts,")
