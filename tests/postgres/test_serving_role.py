"""The role that serves the HTTP API: every route works, under policies for tenants, and the audit log stays."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from tests.api.conftest import ACME, Client
from tests.api.generated import requests_with, unhurried
from tests.postgres.roles import SCHEMA, Roles
from tests.postgres.test_row_security import confined_url

from leasehold.engines import engine_for
from leasehold.model.access import Role
from leasehold.operations import sessions, tokens

REPORT = "/admin/jobs/definitions/report"
STREAMS = ("/stream", "/wakes")
# Administrators' verbs, with a status below 300 for each.
ADMINISTRATION: tuple[tuple[str, str, Any], ...] = (
    ("PATCH", REPORT, {"max_attempts": 7}),
    ("POST", f"{REPORT}/reset", {}),
    ("POST", f"{REPORT}/deactivate", None),
    ("POST", f"{REPORT}/activate", None),
    ("POST", "/admin/jobs/definitions", {"key": "other"}),
    ("PUT", "/admin/limits/tenant/acme", {"max_running": 3}),
    ("POST", "/admin/limits/definition/report/pause", {"why": "down", "seconds": 60}),
    ("POST", "/admin/limits/definition/report/resume", None),
    ("POST", "/admin/tenants", {"id": "initech"}),
    ("GET", "/admin/tenants/acme/export", None),
    ("GET", "/admin/workers", None),
    ("GET", "/audit", None),
    ("GET", "/jobs/series?by=tenant&window=7d", None),
    ("GET", "/usage?by=tenant,hour", None),
    ("GET", "/usage.csv", None),
    ("GET", "/jobs?limit=1", None),
    ("DELETE", "/admin/tenants/initech", None),
)


async def administer(client: Client, method: str, path: str, body: Any = None) -> Any:
    answer = await client.send(method, path, body, role=Role.SUPER_ADMIN)
    assert answer.status_code < 300, (method, path, answer.text)
    return answer.json() if answer.headers["content-type"] == "application/json" else answer.text


async def use_tokens(client: Client) -> None:
    made = await administer(client, "POST", "/admin/tokens", {"name": "ci", "role": "viewer", "tenant": "acme"})
    await administer(client, "POST", f"/admin/tokens/{made['id']}/rotate", {"overlap": "1h"})
    await administer(client, "POST", f"/admin/tokens/{made['id']}/revoke")


async def use_jobs(client: Client) -> str:
    """Returns a job that waits for another day."""
    done, canceled, waiting = [await client.enqueue(dedupe_key=key) for key in ("a", "b", "c")]
    claimed = await client.send("POST", "/worker/jobs/claim", {"definitions": ["report"]}, role=Role.WORKER)
    assert claimed.status_code == 200, claimed.text
    named = {"worker_id": claimed.json()["worker_id"], "fence": claimed.json()["claims"][0]["fence"]}
    for path, more in (("heartbeat", {"lines": [{"number": 1, "text": "half"}]}), ("complete", {"result": {}})):
        answer = await client.send("POST", f"/worker/jobs/{done}/{path}", {**named, **more}, role=Role.WORKER)
        assert answer.status_code == 200, answer.text
    for job, path in ((canceled, "cancel"), (canceled, "retry"), (waiting, "run-now")):
        assert (await client.send("POST", f"/jobs/{job}/{path}")).status_code == 200
    moved = await client.send("POST", f"/jobs/{waiting}/reschedule", {"delay_seconds": 3600})
    assert moved.status_code == 200, moved.text
    return waiting


def every_operation(client: Client, job: str) -> Iterator[tuple[str, str, Any]]:
    """Yields each operation of the API once, with the job in its path and an example as its body."""
    document, sent = client.api.openapi(), set()
    for _, method, path, _, body, _ in requests_with(document, job):
        if (job in path or path in document["paths"]) and (method, path) not in sent and not path.endswith(STREAMS):
            sent.add((method, path))
            yield method, path, body


async def test_the_servers_role_answers_every_route(roles: Roles) -> None:
    url = confined_url(roles.url("server"), roles.names.tenant)
    (await engine_for(url, SCHEMA).schema_status()).require_usable()
    async with unhurried(url, SCHEMA) as client:
        job = await use_jobs(client)
        await use_tokens(client)
        for request in ADMINISTRATION:
            await administer(client, *request)
        explained = (await client.send("GET", f"/jobs/{job}/explain")).json()
        assert "due" in [check["name"] for check in explained["checks"] if check["state"] == "blocking"]
        for method, path, body in every_operation(client, job):
            role = Role.WORKER if "/worker" in path else Role.SUPER_ADMIN
            headers = {"Authorization": f"Bearer {await client.token(role, ACME)}"}
            answer = await client.http.request(method, path, json=body, headers=headers)
            assert answer.status_code < 500, (method, path, answer.text)
            assert "lacks a right" not in answer.text, (method, path, answer.text)


async def test_the_servers_role_signs_browsers_in_and_out(roles: Roles) -> None:
    store = await engine_for(roles.url("server"), SCHEMA).open()
    token, _ = await tokens.create(
        store, "browser", Role.VIEWER, tenant=ACME, life=timedelta(hours=1), created_by="ann"
    )
    secret = await sessions.redeem_link(store, await sessions.make_link(store, token.id))
    assert await sessions.SessionCheck().read(store, secret) is not None
    await sessions.sign_out(store, secret)
    assert await sessions.SessionCheck().read(store, secret) is None
    await store.close()


async def test_the_servers_role_appends_to_the_audit_log_and_no_more(roles: Roles) -> None:
    async with unhurried(roles.url("server"), SCHEMA) as client:
        await administer(client, "PUT", "/admin/limits/tenant/acme", {"max_running": 3})
        (entry, *_) = (await administer(client, "GET", "/audit"))["entries"]
    assert entry["action"] == "tenant.limit"
    async with roles.connection("server") as connection:
        for statement in (
            "update rented.audit_log set actor = 'nobody'",
            "delete from rented.audit_log",
            "truncate rented.audit_log",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(statement)
