"""Input that is too large, too deep, or has two meanings."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from tests.api.conftest import ACME, Client, make_app
from tests.api.generated import requests_with, unhurried
from tests.conftest import Raw
from tests.store.bench import UNKNOWN_ID
from tools.bombs import BOMBS

from leasehold.api import ApiLimits
from leasehold.api import strict_json as strict
from leasehold.api.limits import RequestRates
from leasehold.errors import MalformedRequest, RequestTooLarge, TooManyRequests
from leasehold.model.access import Role

BEGIN = b'{"definition_key": "report", "payload": '


@pytest.mark.parametrize(
    "body",
    [
        b'{"a": 1, "a": 2}',
        b'{"x": {"a": 1, "a": 2}}',
        b"NaN",
        b"[Infinity]",
        b"1e999",
        b"9" * 5000,
        b'"\\ud800"',
        b'"\\u0000"',
        b'{"\\u0000": 1}',
        b"\xff",
        b'"\xed\xa0\x80"',
        b"{",
        b"[1,]",
        b"",
        b"{}{}",
    ],
)
def test_json_with_two_meanings_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedRequest):
        strict.read_json(body, 64)


@pytest.mark.parametrize("body", [b"[" * 200_000, b'{"a":' * 65 + b"1" + b"}" * 65, b'["\\"",' * 65])
def test_deep_json_is_refused_before_it_is_parsed(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strict, "json", None)
    with pytest.raises(RequestTooLarge):
        strict.read_json(body, 64)


@pytest.mark.parametrize("body", [b'{"a": "[[[[[["}', b'["\\\\", [[["{{{{{{"]]]]', b'"\\u00e9"', b"[1.5e3, -0]"])
def test_brackets_within_texts_do_not_count(body: bytes) -> None:
    assert strict.read_json(body, 4) is not None


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (BEGIN + b"[" * 100_000, 413, "LH-6006"),
        (BEGIN + b'{"a": 1, "a": 2}}', 400, "LH-6005"),
        (BEGIN + b'{"name": NaN}}', 400, "LH-6005"),
        (BEGIN + b'{"name": "x"}, "tenant_id": "globex"}', 422, "LH-1000"),
        (BEGIN + b'{"name": "x"}, "status": "succeeded"}', 422, "LH-1000"),
        (BEGIN + b'{"name": "x"}, "priority": 1e30}', 422, "LH-1000"),
        (BEGIN + b'{"name": "x"}, "priority": ' + b"9" * 300 + b"}", 422, "LH-1000"),
        (BEGIN + b'{"name": "x"}, "scheduled_for": "99999-01-01"}', 422, "LH-1000"),
        (BEGIN + b'"text"}', 422, "LH-1000"),
        (b"[]", 422, "LH-1000"),
        (b"", 422, "LH-1000"),
    ],
)
async def test_a_body_that_does_not_fit_is_refused(client: Client, body: bytes, status: int, code: str) -> None:
    answer = await client.send("POST", "/jobs", content=body)
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text


async def test_a_large_body_is_not_read_to_its_end(client: Client) -> None:
    parts = [0]

    async def endless() -> AsyncIterator[bytes]:
        while True:
            parts[0] += 1
            yield b" " * 100_000

    headers = {"Authorization": f"Bearer {await client.token()}", "Content-Type": "application/json"}
    answer = await client.http.post("/api/v1/jobs", content=endless(), headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (413, "LH-6006")
    assert parts[0] < 20


async def test_a_declared_size_is_refused_before_a_byte_is_read(client: Client) -> None:
    answer = await client.send("POST", "/jobs", content=b"{}", headers={"Content-Length": str(10**9)})
    assert answer.status_code == 413


async def test_a_body_must_be_declared_as_json(client: Client) -> None:
    answer = await client.send("POST", "/jobs", content=b"{}", headers={"Content-Type": "text/plain"})
    assert (answer.status_code, answer.json()["code"]) == (400, "LH-6005")


@pytest.mark.parametrize(
    "path",
    [
        "/jobs?limit=1000000000",
        "/jobs?limit=0",
        "/jobs?offset=100000",
        "/jobs?cursor=nonsense",
        "/jobs?cursor=%5B%22%27%20or%201%3D1%22%5D",
        "/jobs?cursor=%00",
        "/jobs?status=done%00",
        "/jobs?status=nonsense",
        "/jobs?source=nonsense",
        "/jobs?definition=%00",
        "/jobs?correlation_id=%00",
        "/jobs?created_after=0001-01-01T00:00:00%2B14:00",
        "/jobs?created_after=yesterday",
        "/jobs?order=payload",
        "/jobs?tenant=%00",
        "/jobs/not-an-id",
        "/jobs/triggers?cursor=x",
        "/jobs/triggers/x/preview",
        "/events?cursor=x",
        "/events?name=%00",
        "/jobs/01989c1e-77b0-7000-8000-000000000042/logs?after=1-x",
    ],
)
async def test_a_bad_address_is_the_fault_of_its_sender(client: Client, path: str) -> None:
    answer = await client.send("GET", path)
    assert 400 <= answer.status_code < 500, answer.text
    assert answer.headers["content-type"] == "application/problem+json"


async def test_an_unknown_address_and_method_are_problems(client: Client) -> None:
    for method, path, status in (("GET", "/nothing", 404), ("PUT", "/jobs", 405)):
        answer = await client.send(method, path)
        assert (answer.status_code, answer.json()["status"]) == (status, status)


def test_a_bucket_fills_with_time() -> None:
    now = [0.0]
    rates = RequestRates(ApiLimits(token_rate=0.5, token_burst=2, tenant_burst=3), lambda: now[0])
    rates.count("a", "acme")
    rates.count("a", "acme")
    with pytest.raises(TooManyRequests) as refused:
        rates.count("a", "acme")
    assert refused.value.retry_after == 2
    now[0] += 2
    rates.count("a", "acme")


def test_the_tokens_of_a_tenant_share_its_bucket() -> None:
    rates = RequestRates(ApiLimits(tenant_rate=1, tenant_burst=2), lambda: 0.0)
    rates.count("a", "acme")
    rates.count("b", "acme")
    rates.count("c", "globex")
    with pytest.raises(TooManyRequests, match="this tenant"):
        rates.count("c", "acme")


@asynccontextmanager
async def limited(url: str, limits: ApiLimits) -> AsyncIterator[Client]:
    app = make_app(url)
    api = app.api(limits=limits)
    transport = httpx.ASGITransport(api)
    async with (
        app.open(),
        api.router.lifespan_context(api),
        httpx.AsyncClient(transport=transport, base_url="http://api.test") as http,
    ):
        yield Client(app, api, http)


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        (ApiLimits(seconds=0.5, statement=60), "the request took longer than 0.5 s"),
        (ApiLimits(seconds=60, statement=0.5), "did not answer in time"),
    ],
    ids=["request", "statement"],
)
async def test_a_request_behind_a_lock_ends_in_time(
    database_url: str, observer: Raw, limits: ApiLimits, told: str
) -> None:
    async with limited(database_url, limits) as client:
        await client.token()
        async with observer.transaction():
            await observer.execute("lock table leasehold.jobs")
            answer = await client.send("GET", "/jobs")
        assert (answer.status_code, answer.headers["content-type"]) == (503, "application/problem+json")
        assert told in answer.json()["detail"]


async def test_too_many_requests_are_told_when_to_come_again(database_url: str) -> None:
    async with limited(database_url, ApiLimits(token_rate=0.001, token_burst=1)) as client:
        answers: list[Any] = [await client.send("GET", "/me", role=Role.VIEWER, tenant=ACME) for _ in range(2)]
    assert [each.status_code for each in answers] == [200, 429]
    assert (answers[1].json()["code"], answers[1].headers["retry-after"]) == ("LH-6003", "1000")


NASTY = {"nul": "\0'\x7f", "wide": "\U0001f600" * 300, "digits": "9" * 400, "number": -1.5, "list": [{}]}


@pytest.mark.parametrize("value", NASTY.values(), ids=NASTY)
async def test_no_value_in_any_position_makes_the_server_fail(database_url: str, value: Any) -> None:
    async with unhurried(database_url) as client:
        document = client.api.openapi()
        for _, method, path, query, body, extra in requests_with(document, value, str(UNKNOWN_ID)):
            role = Role.SUPER_ADMIN if "/admin/" in path else Role.WORKER if "/worker/" in path else Role.TENANT_ADMIN
            headers = extra | {"Authorization": f"Bearer {await client.token(role)}"}
            answer = await client.http.request(method, path, params=query, json=body, headers=headers)
            assert answer.status_code < 500, (method, path, query, body, answer.text)


async def test_a_schema_that_asks_for_too_much_is_refused(client: Client) -> None:
    schema = BOMBS["allOf that doubles 2^30"][0]
    sent = {"key": "bomb", "schema": schema}
    made = await client.send("POST", "/admin/jobs/definitions", sent, role=Role.SUPER_ADMIN)
    example = client.api.openapi()["components"]["schemas"]["SyncDefinitions"]["examples"][0]["definitions"][0]
    work = {"definitions": [{**example, "schema": schema}]}
    synced = await client.send("POST", "/worker/definitions", work, role=Role.WORKER, tenant=None)
    for answer in (made, synced):
        assert (answer.status_code, answer.json()["code"]) == (422, "LH-1000"), answer.text
