"""Error groups over HTTP, and operations on groups and named jobs."""

import pytest
from tests.api.conftest import Client
from tests.tenant_kit import ACME, DAY, OTHER

from leasehold.model.access import Role
from leasehold.model.error_group import error_group
from leasehold.model.job import JobId, TenantId
from leasehold.model.outcome import Raised, decide
from leasehold.operations import audit
from leasehold.store import AuditFilter, Subscription, WorkerFacts

GROUP = error_group("report", "TimeoutError", "timed out after 30 s")


async def fail(client: Client, error: str, tenant: TenantId = ACME) -> JobId:
    """Makes a job that has failed."""
    job = await client.enqueue(tenant)
    store = client.app.store
    worker = await store.join(Subscription(("report",)), WorkerFacts("here", 1), DAY)
    (claim,) = (await store.claim(worker, 1)).claims
    assert claim.job == job
    await store.finish([(claim, decide(Raised("TimeoutError", error, final=True), claim, jitter=0))])
    return claim.job


@pytest.mark.both_engines
async def test_errors_are_grouped_for_a_tenant_and_for_all(client: Client) -> None:
    for tenant in (ACME, OTHER):
        await fail(client, "timed out after 30 s", tenant)
    (group,) = (await client.send("GET", "/errors")).json()["groups"]
    assert (group["id"], group["tenant_id"], group["jobs"]) == (GROUP, ACME, 1)
    assert group["error"] == "timed out after 30 s"
    everywhere = (await client.send("GET", "/errors", role=Role.SUPER_ADMIN, tenant=None)).json()
    assert {each["tenant_id"] for each in everywhere["groups"]} == {ACME, OTHER}
    shown = (await client.send("GET", f"/errors/{GROUP}")).json()
    assert shown["fields"] == [
        {"name": "name", "present": 1, "values": [{"value": '"june"', "jobs": 1}], "others": 0}
    ]


async def test_a_group_that_is_not_there_is_not_found(client: Client) -> None:
    await fail(client, "timed out after 30 s", OTHER)
    assert (await client.send("GET", f"/errors/{GROUP}")).status_code == 404
    assert (await client.send("GET", "/errors/timeouts")).status_code == 422
    assert (await client.send("GET", "/jobs?error_group=timeouts")).status_code == 422


async def test_an_error_is_hidden_from_readers_without_logs(client: Client) -> None:
    await fail(client, "timed out after 30 s")
    (group,) = (await client.send("GET", "/errors", role=Role.VIEWER)).json()["groups"]
    assert (group["code"], group["error"], group["hidden"]) == ("TimeoutError", None, ["error"])
    assert (await client.send("GET", f"/errors/{GROUP}", role=Role.VIEWER)).json()["fields"] == []


@pytest.mark.both_engines
async def test_an_operation_names_a_group_or_jobs(client: Client) -> None:
    job, other = await fail(client, "timed out after 30 s"), await fail(client, "refused")
    listed = (await client.send("GET", f"/jobs?error_group={GROUP}")).json()["jobs"]
    assert [each["id"] for each in listed] == [job]
    of_group = {"kind": "retry", "error_group": GROUP, "plan": True}
    assert (await client.send("POST", "/operations", of_group)).json()["sample"] == [job]
    named = {"kind": "retry", "jobs": [other], "reason": "it is back"}
    assert (await client.send("POST", "/operations", {**named, "plan": True})).json()["sample"] == [other]
    earlier = {**named, "as_of": "2020-01-01T00:00:00Z", "plan": True}
    assert (await client.send("POST", "/operations", earlier)).json()["matching"] == 0
    begun = (await client.send("POST", "/operations", named)).json()
    assert (begun["filter"]["jobs"], begun["reason"], begun["total"]) == ([other], "it is back", 1)
    page = await audit.entries(client.app.store, AuditFilter(ACME, "operation.retry"), None, 5)
    noted = page.entries[0].entry.after
    assert noted is not None
    assert noted["reason"] == "it is back"
