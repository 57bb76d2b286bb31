"""`leasehold tenants`: list, usage, export and delete."""

import orjson
from tests.cli.terminal import CommandLine
from tests.store.bench import Bench
from tests.tenant_kit import ACME, HOUR, OTHER

from leasehold.model.job import LogLine
from leasehold.model.limits import Limits, Pause, Scope, ScopeKind


async def test_tenants_are_listed_page_by_page(leasehold: CommandLine, bench: Bench) -> None:
    for tenant in (ACME, OTHER):
        await bench.store.add_tenant(tenant)
    assert (await leasehold("tenants", "list", "-n", "1", "--json")).document == [ACME]
    assert (await leasehold("tenants", "list", "--cursor", ACME, "--json")).document == [OTHER]


async def test_usage_tells_what_a_tenant_has(leasehold: CommandLine, bench: Bench) -> None:
    await bench.enqueue(delay=HOUR)
    await bench.dead_lettered()
    scope = Scope(ScopeKind.TENANT, ACME)
    await bench.store.limit(scope, Limits(max_running=3))
    await bench.store.pause(scope, Pause("moving"))
    used = (await leasehold("tenants", "usage", "acme", "--json")).document
    assert (used["jobs"]["queued"], used["jobs"]["dead_letter"], used["triggers"]) == (1, 1, 0)
    assert (used["max_running"], used["paused_because"], used["deleted_by"]) == (3, "moving", None)
    assert used["oldest_queued"] is not None
    assert "paused: moving" in (await leasehold("tenants", "usage", "acme")).out


async def test_an_export_has_one_document_a_line(leasehold: CommandLine, bench: Bench) -> None:
    claim = await bench.running()
    await bench.store.append_log([(claim, LogLine(1, "packing"))])
    await bench.fail(claim, final=True)
    waiting = await bench.enqueue(delay=HOUR)
    done = await leasehold("tenants", "export", "acme")
    documents = [orjson.loads(line) for line in done.out.splitlines()]
    assert [each["record"] for each in documents] == ["tenant", "job", "job"]
    assert {each["id"] for each in documents[1:]} == {waiting, claim.job}
    (ended,) = (each for each in documents if each.get("id") == claim.job)
    assert [attempt["status"] for attempt in ended["attempts"]] == ["failed"]
    assert [line["text"] for line in ended["lines"]] == ["packing"]


async def test_delete_removes_a_tenant_once_it_is_confirmed(leasehold: CommandLine, bench: Bench) -> None:
    await bench.enqueue()
    refused = await leasehold("tenants", "delete", "acme")
    assert (refused.code, "--yes" in refused.err) == (2, True)
    begun = await leasehold("tenants", "delete", "acme", "--yes", "--detach", "--json")
    assert begun.document["state"] == "planned"
    assert (await leasehold("enqueue", "report", "-t", "acme")).code == 4
    done = await leasehold("tenants", "delete", "acme", "--yes", "--json")
    assert (done.document["id"], done.document["state"]) == (begun.document["id"], "done")
    assert done.document["details"]["waiting_jobs"] == 1
    assert (await leasehold("tenants", "list", "--json")).document == []
    assert (await leasehold("tenants", "usage", "acme")).code == 3
