"""Lists of jobs by traits, and saved views of them, over HTTP."""

from urllib.parse import quote

import pytest
from tests.api.conftest import Client

from leasehold.model.access import Role


async def listed(client: Client, query: str) -> list[str]:
    answer = await client.send("GET", f"/jobs?{query}")
    assert answer.status_code == 200, answer.text
    return [each["id"] for each in answer.json()["jobs"]]


@pytest.mark.both_engines
async def test_jobs_are_listed_by_their_traits(client: Client) -> None:
    plain = await client.enqueue(dedupe_key="sync:1", delay_seconds=60)
    urgent = await client.enqueue(priority=5, payload={"name": "july"}, delay_seconds=60)
    assert await listed(client, "priority=%3C50") == [urgent]
    assert await listed(client, "dedupe_key=sync:1") == [plain]
    assert await listed(client, "payload=name%3Djuly") == [urgent]
    assert await listed(client, "duration=%3E1s") == []
    assert await listed(client, "worker=0d5cf4a4-9f0b-4a5e-b2a1-0d5cf4a49f0b") == []


async def test_a_trait_that_can_not_be_read_is_refused(client: Client) -> None:
    for query in ("priority=high", "duration=5m", "payload=api_key%3Dx", "worker=lab"):
        answer = await client.send("GET", f"/jobs?{query}")
        assert (answer.status_code, answer.json()["code"]) == (422, "LH-1000"), query


async def test_payloads_are_searched_by_their_readers_only(client: Client) -> None:
    await client.enqueue()
    answer = await client.send("GET", "/jobs?payload=name%3Djune", role=Role.VIEWER)
    assert (answer.status_code, answer.json()["code"]) == (403, "LH-6002")


async def test_a_view_is_saved_listed_and_deleted(client: Client) -> None:
    sent = {"name": "dead syncs", "query": "q=status%3Adead-letter", "shared": True}
    assert (await client.send("POST", "/views", sent, role=Role.VIEWER)).status_code == 403
    assert (await client.send("POST", "/views", sent)).status_code == 200
    assert (await client.send("POST", "/views", sent | {"shared": False}, role=Role.VIEWER)).status_code == 200
    found = (await client.send("GET", "/views", role=Role.VIEWER)).json()["views"]
    assert [(each["name"], each["shared"]) for each in found] == [("dead syncs", True), ("dead syncs", False)]
    for path, status in (("dead syncs&shared=true", 403), ("dead syncs", 204), ("dead syncs", 422)):
        answer = await client.send("DELETE", f"/views?name={path}", role=Role.VIEWER)
        assert answer.status_code == status, (path, answer.text)
    assert len((await client.send("GET", "/views")).json()["views"]) == 1


@pytest.mark.parametrize("name", ["a/b", ".", "..", "a?b&c#d"])
async def test_a_view_of_any_name_can_be_deleted(client: Client, name: str) -> None:
    assert (await client.send("POST", "/views", {"name": name, "query": "q=x"})).status_code == 200
    answer = await client.send("DELETE", f"/views?name={quote(name, safe='')}")
    assert (answer.status_code, answer.text) == (204, "")


async def test_a_saved_view_is_answered_as_it_is_stored(client: Client) -> None:
    sent = {"name": " late ", "query": "page=7&limit=25&q=status:failed&done=job-canceled", "shared": True}
    saved = (await client.send("POST", "/views", sent)).json()
    assert (saved["name"], saved["query"], saved["shared"]) == ("late", "limit=25&q=status%3Afailed", True)
    assert saved["created_at"] is not None
    assert (await client.send("GET", "/views")).json()["views"] == [saved]
