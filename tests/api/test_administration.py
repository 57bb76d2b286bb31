"""Definitions, limits, pauses and workers over HTTP, for super admins."""

from typing import Any

import httpx
import pytest
from tests.api.conftest import Client

from leasehold.model.access import Role


async def send(client: Client, method: str, path: str, json: Any = None) -> httpx.Response:
    return await client.send(method, f"/admin{path}", json, role=Role.SUPER_ADMIN)


@pytest.mark.both_engines
async def test_a_definition_is_shown_and_stopped(client: Client) -> None:
    (listed,) = (await send(client, "GET", "/jobs/definitions")).json()["definitions"]
    assert (listed["key"], listed["active"], listed["max_attempts"]) == ("report", True, 2)
    assert (await send(client, "POST", "/jobs/definitions/report/deactivate")).json()["active"] is False
    refused = await client.send("POST", "/jobs", {"definition_key": "report", "payload": {"name": "x"}})
    assert (refused.status_code, refused.json()["code"]) == (409, "LH-1005")
    assert (await send(client, "POST", "/jobs/definitions/report/activate")).json()["active"] is True
    assert (await send(client, "GET", "/jobs/definitions/report")).json()["active"] is True
    assert (await send(client, "GET", "/jobs/definitions/repor")).json()["code"] == "LH-1002"
    assert [each["key"] for each in (await client.send("GET", "/jobs/definitions")).json()["definitions"]] == [
        "report"
    ]


@pytest.mark.both_engines
async def test_a_tenant_is_limited_paused_and_resumed(client: Client) -> None:
    assert (await send(client, "PUT", "/limits/tenant/acme", {"max_running": 3})).json() == {"ok": True}
    paused = await send(client, "POST", "/limits/definition/report/pause", {"why": "down", "seconds": 60})
    assert paused.status_code == 200
    found = {each["key"]: each for each in (await send(client, "GET", "/limits")).json()["scopes"]}
    assert (found["acme"]["max_running"], found["report"]["paused_because"]) == (3, "down")
    await send(client, "POST", "/limits/definition/report/resume")
    await send(client, "PUT", "/limits/tenant/acme", {"max_running": None})
    assert (await send(client, "GET", "/limits")).json()["scopes"] == []


@pytest.mark.both_engines
async def test_workers_are_listed(client: Client) -> None:
    sent = {"definitions": ["report"], "host": "host-2", "pid": 7}
    joined = await client.send("POST", "/worker/jobs/claim", sent, role=Role.WORKER, tenant=None)
    (listed,) = (await send(client, "GET", "/workers")).json()["workers"]
    assert (listed["id"], listed["host"], listed["pid"]) == (joined.json()["worker_id"], "host-2", 7)


async def test_health_needs_no_token_and_tells_nothing(client: Client) -> None:
    for path in ("/health", "/ready"):
        answer = await client.http.get(f"/api/v1{path}")
        assert (answer.status_code, answer.json()) == (200, {"ok": True})


@pytest.mark.both_engines
async def test_metrics_need_a_token_of_all_tenants(client: Client) -> None:
    await client.send("POST", "/jobs", {"definition_key": "report", "payload": {"name": "x"}})
    answer = await client.send("GET", "/metrics", role=Role.SUPER_ADMIN)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    assert 'job_queue_depth{job_type="report"} 1.0' in answer.text
    assert 'leasehold_enqueued_total{job_type="report",source="manual"} 1.0' in answer.text
    assert (await client.send("GET", "/metrics", role=Role.TENANT_ADMIN)).status_code == 403
    assert (await client.http.get("/api/v1/metrics")).status_code == 401


@pytest.mark.both_engines
async def test_a_definition_is_created_with_the_payload_of_the_contract(client: Client) -> None:
    schema = {
        "type": "object",
        "properties": {"provider_id": {"type": "string"}, "path_prefix": {"type": "string"}},
        "required": ["provider_id"],
        "additionalProperties": False,
    }
    sent = {
        "key": "sync-dropbox",
        "description": "Sync",
        "arg_schema": schema,
        "timeout_seconds": 60,
        "max_attempts": 3,
    }
    created = await send(client, "POST", "/jobs/definitions", sent)
    assert created.status_code == 201, created.text
    shown = created.json()
    assert (shown["schema"], shown["timeout"], shown["max_attempts"]) == (schema, 60, 3)
    changed = await send(client, "PATCH", "/jobs/definitions/sync-dropbox", {"is_active": False})
    assert changed.json()["active"] is False
    twice = await send(client, "PATCH", "/jobs/definitions/sync-dropbox", {"timeout": "1m", "timeout_seconds": 60})
    assert (twice.status_code, twice.json()["code"]) == (422, "LH-1000")
