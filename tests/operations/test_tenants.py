"""The life of a tenant, as people see it: listed, looked at, exported, deleted."""

import pytest
from tests.store.bench import Bench
from tests.store.event_kit import rule
from tests.store.test_operations import run
from tests.tenant_kit import ACME, OTHER

from leasehold.errors import TenantDeleted, UnknownTenant
from leasehold.model.access import Role
from leasehold.model.audit import Actor
from leasehold.model.job import LogLine, NewJob
from leasehold.model.status import Status
from leasehold.operations import tenants, tokens
from leasehold.store import AuditFilter


async def test_an_export_has_jobs_with_their_story_and_triggers(bench: Bench) -> None:
    claim = await bench.running()
    await bench.store.append_log([(claim, LogLine(1, "half"))])
    await bench.succeed(claim)
    trigger = await bench.store.triggers(ACME).add(rule())
    await bench.store.tenant(OTHER).enqueue([NewJob(definition="report")])
    tenant, shown, job = [each async for each in tenants.export(bench.store, ACME)]
    assert (tenant["record"], shown["record"], shown["id"]) == ("tenant", "trigger", trigger.id)
    assert (job["record"], job["id"], job["status"]) == ("job", claim.job, "succeeded")
    assert ([each["number"] for each in job["attempts"]], job["lines"][0]["text"]) == ([1], "half")


async def test_a_deleted_tenant_leaves_only_its_audit_entry(bench: Bench) -> None:
    await bench.dead_lettered()
    await bench.store.tenant(OTHER).enqueue([NewJob(definition="report")])
    await tokens.create(bench.store, "ci", Role.VIEWER, tenant=ACME)
    assert (await tenants.usage(bench.store, ACME)).jobs[Status.DEAD_LETTER] == 1
    begun = await tenants.delete(bench.store, ACME, actor=Actor("anna"))
    with pytest.raises(TenantDeleted):
        await bench.enqueue()
    await run(bench, begun)
    with pytest.raises(UnknownTenant):
        await tenants.usage(bench.store, ACME)
    assert (await tenants.list_page(bench.store, None, 10)).tenants == [OTHER]
    assert await bench.store.tokens.list(10) == []
    (noted,) = (await bench.store.audit.page(AuditFilter(), None, 10)).entries
    assert (noted.entry.action, noted.entry.subject) == ("tenant.delete", f"tenant {ACME}")
