"""Overrides, operations on many jobs, the life of tenants, tokens, figures and the audit log over HTTP."""

import json
from typing import Any

import httpx
import pytest
from tests.api.conftest import GLOBEX, Client
from tests.conftest import eventually

from leasehold.model.access import Role


async def admin(
    client: Client, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> httpx.Response:
    return await client.send(method, path, body, role=Role.SUPER_ADMIN, headers=headers)


@pytest.mark.both_engines
async def test_an_override_is_shown_with_its_origin_and_reset(client: Client) -> None:
    path = "/admin/jobs/definitions/report"
    changed = await admin(client, "PATCH", path, {"max_attempts": 7, "timeout": "10m"})
    assert (changed.status_code, changed.json()["max_attempts"], changed.json()["timeout"]) == (200, 7, 600)
    assert changed.json()["origins"]["max_attempts"]["by"] == "super_admin of None"
    assert (await admin(client, "POST", f"{path}/reset", {})).json()["max_attempts"] == 2


async def test_of_two_admins_with_one_etag_the_second_is_refused(client: Client) -> None:
    path = "/admin/jobs/definitions/report"
    seen = {"If-Match": (await admin(client, "GET", path)).headers["ETag"]}
    first = await admin(client, "PATCH", path, {"max_attempts": 7}, seen)
    second = await admin(client, "PATCH", path, {"max_attempts": 8}, seen)
    assert (first.status_code, second.status_code, second.json()["code"]) == (200, 412, "LH-1050")


@pytest.mark.both_engines
async def test_a_definition_without_code_is_created_once(client: Client) -> None:
    new = {"key": "sync-dropbox", "timeout": "5m", "schema": {"type": "object"}}
    assert (await admin(client, "POST", "/admin/jobs/definitions", new)).status_code == 201
    assert (await admin(client, "POST", "/admin/jobs/definitions", new)).status_code == 409
    program = await admin(client, "POST", "/admin/jobs/definitions", {"key": "x", "argv": ["/bin/sh"]})
    assert program.status_code == 422


@pytest.mark.both_engines
async def test_all_matching_jobs_are_planned_and_canceled(client: Client) -> None:
    for _ in range(3):
        await client.enqueue()
    planned = await client.send("POST", "/operations", {"kind": "cancel", "plan": True})
    assert (planned.status_code, planned.json()["matching"]) == (202, 3)
    begun = (await client.send("POST", "/operations", {"kind": "cancel", "pace": "1/h"})).json()
    assert (begun["state"], begun["created_by"]) == ("planned", "tenant_admin of acme")

    async def has_begun() -> bool:
        shown = (await client.send("GET", f"/operations/{begun['id']}")).json()
        return (shown["state"], shown["done"]) == ("running", 1)

    await eventually(has_begun, what="the first batch, which the server runs")
    aborted = await client.send("POST", f"/operations/{begun['id']}/abort")
    assert aborted.json()["state"] == "aborted"
    assert (await client.send("POST", f"/operations/{begun['id']}/abort")).status_code == 409
    listed = (await client.send("GET", "/operations")).json()["operations"]
    assert [each["id"] for each in listed] == [begun["id"]]
    assert (await client.send("GET", f"/operations/{begun['id']}")).json()["state"] == "aborted"


async def test_an_operation_of_another_tenant_is_unknown(client: Client) -> None:
    begun = (await client.send("POST", "/operations", {"kind": "retry"}, tenant=GLOBEX)).json()
    for method, path in (("GET", ""), ("POST", "/abort")):
        theirs = await client.send(method, f"/operations/{begun['id']}{path}")
        unknown = await client.send(method, f"/operations/01989c1e-77b0-7000-8000-000000000042{path}")
        assert (theirs.status_code, theirs.json()["code"]) == (404, "LH-1016")
        assert unknown.json()["code"] == theirs.json()["code"]
    assert (await client.send("GET", "/operations")).json()["operations"] == []


async def test_people_of_a_tenant_do_not_abort_its_removal(client: Client) -> None:
    await client.enqueue()
    removal = (await admin(client, "DELETE", "/admin/tenants/acme?pace=1/h")).json()
    refused = await client.send("POST", f"/operations/{removal['id']}/abort")
    assert (refused.status_code, refused.json()["code"]) == (403, "LH-6002")
    assert (await admin(client, "POST", f"/operations/{removal['id']}/abort")).status_code == 200


@pytest.mark.both_engines
async def test_a_tenant_is_registered_looked_at_and_deleted(client: Client) -> None:
    assert (await admin(client, "POST", "/admin/tenants", {"id": "initech"})).json()["created"] is True
    assert (await admin(client, "POST", "/admin/tenants", {"id": "initech"})).json()["created"] is False
    await client.enqueue()
    assert (await admin(client, "GET", "/admin/tenants")).json()["tenants"] == ["acme", "initech"]
    assert (await admin(client, "GET", "/admin/tenants/acme")).json()["jobs"]["queued"] == 1
    begun = await admin(client, "DELETE", "/admin/tenants/acme")
    assert (begun.status_code, begun.json()["kind"]) == (202, "delete_tenant")
    refused = await client.send("POST", "/jobs", {"definition_key": "report", "payload": {"name": "x"}})
    assert (refused.status_code, refused.json()["code"]) == (409, "LH-1015")
    assert (await admin(client, "GET", "/admin/tenants/unknown")).status_code == 404


@pytest.mark.both_engines
async def test_an_export_streams_all_that_a_tenant_has(client: Client) -> None:
    mine = [await client.enqueue() for _ in range(3)]
    await client.enqueue(tenant=GLOBEX)
    answer = await admin(client, "GET", "/admin/tenants/acme/export")
    records = [json.loads(line) for line in answer.text.splitlines()]
    assert records[0]["record"] == "tenant"
    assert {each["id"] for each in records if each["record"] == "job"} == set(mine)


@pytest.mark.both_engines
async def test_a_created_token_works_until_it_is_revoked(client: Client) -> None:
    made = await admin(client, "POST", "/admin/tokens", {"name": "ci", "role": "viewer", "tenant": "acme"})
    assert made.status_code == 201
    bearer = {"Authorization": f"Bearer {made.json()['token']}"}
    assert (await client.http.get("/api/v1/jobs", headers=bearer)).status_code == 200
    rotated = await admin(client, "POST", f"/admin/tokens/{made.json()['id']}/rotate", {"overlap": "1h"})
    assert rotated.json()["token"] != made.json()["token"]
    revoked = await admin(client, "POST", f"/admin/tokens/{made.json()['id']}/revoke")
    assert revoked.json()["state"] == "revoked"
    listed = (await admin(client, "GET", "/admin/tokens?tenant=acme")).json()["tokens"]
    assert "ci" in {each["name"] for each in listed}
    assert "hash" not in json.dumps(listed)


@pytest.mark.both_engines
async def test_the_audit_log_names_principal_token_and_request(client: Client) -> None:
    job = await client.enqueue()
    await client.send("POST", f"/jobs/{job}/cancel", headers={"X-Request-Id": "req-7"})
    (entry,) = (await client.send("GET", "/audit")).json()["entries"]
    assert (entry["action"], entry["tenant"], entry["request"]) == ("job.cancel", "acme", "req-7")
    assert entry["actor"] == "tenant_admin of acme"
    assert entry["token"]
    assert (await client.send("GET", "/audit", tenant=GLOBEX)).json()["entries"] == []


async def test_nothing_is_noted_of_a_change_that_is_refused(client: Client) -> None:
    job = await client.enqueue()
    assert (await client.send("POST", f"/jobs/{job}/retry")).status_code == 409
    assert (await client.send("GET", "/audit")).json()["entries"] == []


async def test_figures_are_those_of_the_tokens_tenant(client: Client) -> None:
    await client.enqueue()
    chart = (await client.send("GET", "/jobs/series?window=15m")).json()
    assert (chart["by"], len(chart["series"])) == ("all", 1)
    assert (await client.send("GET", "/jobs/series?window=15m&by=tenant")).status_code == 422


async def test_usage_is_that_of_the_tokens_tenant(client: Client) -> None:
    found = (await client.send("GET", "/usage?since=2h&by=tenant,definition,hour")).json()
    assert (found["by"], found["rows"]) == (["definition", "hour", "tenant"], [])
    assert found["total"] == {"attempts": 0, "run_seconds": 0, "cpu_seconds": None, "cpu_unknown_attempts": 0}
    lines = await client.send("GET", "/usage.csv?by=day")
    assert lines.headers["content-type"] == "text/csv; charset=utf-8"
    assert lines.text == "at,attempts,run_seconds,cpu_seconds,cpu_unknown_attempts\n"
    assert (await client.send("GET", "/usage?by=week")).status_code == 422
    assert (await client.send("GET", f"/usage?tenant={GLOBEX}")).status_code == 403
