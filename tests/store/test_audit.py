"""The audit log: who changed what, when and with which token. Entries are read by keys, the newest first."""

import pytest
from tests.store.bench import Bench
from tests.tenant_kit import ACME, OTHER, SECOND

from leasehold.errors import InvalidInput, WrongState
from leasehold.model.audit import Actor, NewEntry
from leasehold.model.limits import Scope, ScopeKind
from leasehold.operations import admin, definitions, explain, jobs
from leasehold.operations.audit import audited, record
from leasehold.store import AuditFilter

ANNA = Actor("anna", token="tok_1", request="req-7")
TENANT = Scope(ScopeKind.TENANT, ACME)


EVERYTHING = AuditFilter()


async def actions(bench: Bench, where: AuditFilter = EVERYTHING) -> list[str]:
    return [noted.entry.action for noted in (await bench.store.audit.page(where, None, 100)).entries]


async def newest(bench: Bench) -> NewEntry:
    return (await bench.store.audit.page(AuditFilter(), None, 1)).entries[0].entry


async def test_an_entry_comes_back_as_it_was_appended(bench: Bench) -> None:
    entry = NewEntry("tenant.pause", "tenant acme", ANNA, ACME, {"a": None}, {"a": {"b": [1.5, "ü"]}})
    before = await bench.store.now()
    await bench.store.audit.append(entry)
    (noted,) = (await bench.store.audit.page(AuditFilter(), None, 10)).entries
    assert noted.entry == entry
    assert before <= noted.at <= await bench.store.now()


async def test_entries_are_found_by_tenant_action_and_time(bench: Bench) -> None:
    moments = []
    for action, tenant in (("a", ACME), ("b", ACME), ("a", OTHER), ("a", None)):
        moments.append(await bench.store.now())
        await bench.store.audit.append(NewEntry(action, f"{action} {tenant}", ANNA, tenant))
        await bench.move_clock(SECOND)
    assert await actions(bench) == ["a", "a", "b", "a"]
    assert await actions(bench, AuditFilter(tenant=ACME)) == ["b", "a"]
    assert await actions(bench, AuditFilter(action="a")) == ["a", "a", "a"]
    assert await actions(bench, AuditFilter(tenant=ACME, action="a")) == ["a"]
    assert await actions(bench, AuditFilter(after=moments[1], before=moments[3])) == ["a", "b"]


async def test_pages_continue_where_the_one_before_ended(bench: Bench) -> None:
    for number in range(5):
        await bench.store.audit.append(NewEntry("a", str(number), ANNA, ACME))
    seen, cursor = [], None
    for _ in range(3):
        page = await bench.store.audit.page(AuditFilter(tenant=ACME), cursor, 2)
        seen += [noted.entry.subject for noted in page.entries]
        cursor = page.next
    assert (seen, cursor) == (["4", "3", "2", "1", "0"], None)
    with pytest.raises(InvalidInput, match="is not a cursor"):
        await bench.store.audit.page(AuditFilter(), "nonsense", 2)


async def test_a_change_is_noted_with_what_differs(bench: Bench) -> None:
    await definitions.override(bench.store, "report", {"max_attempts": 8}, ANNA)
    assert await newest(bench) == NewEntry(
        "definition.override", "definition report", ANNA, None, {"max_attempts": 3}, {"max_attempts": 8}
    )


async def test_a_pause_names_who_paused_also_when_explained(bench: Bench) -> None:
    job = await bench.enqueue()
    await admin.pause(bench.store, TENANT, "unpaid", None, ANNA)
    noted = await newest(bench)
    assert (noted.action, noted.tenant, (noted.after or {})["paused_because"]) == ("tenant.pause", ACME, "unpaid")
    explained = await explain.explain(bench.store, ACME, job)
    (check,) = (each for each in explained.blocking if each.name == "tenant_pause")
    assert (check.evidence["by"], check.details[0].endswith("by anna")) == ("anna", True)
    await admin.resume(bench.store, TENANT, ANNA)
    assert await actions(bench) == ["tenant.resume", "tenant.pause"]


async def test_a_person_who_cancels_is_noted_and_the_app_is_not(bench: Bench) -> None:
    first, second = await bench.enqueue(), await bench.enqueue()
    await jobs.cancel(bench.store, ACME, first)
    await jobs.cancel(bench.store, ACME, second, ANNA)
    noted = await newest(bench)
    assert (noted.action, noted.subject, noted.tenant) == ("job.cancel", f"job {second}", ACME)
    assert [(each or {})["state"] for each in (noted.before, noted.after)] == ["ready", "canceled"]
    with pytest.raises(WrongState):
        await jobs.cancel(bench.store, ACME, second, ANNA)
    assert await actions(bench) == ["job.cancel"]


async def test_secrets_are_not_noted(bench: Bench) -> None:
    await record(bench.store, ANNA, "x", "y", {"password": "hunter2-hunter2"}, {"password": "another-one-9"})
    noted = await newest(bench)
    assert "hunter2" not in str(noted)
    assert "another" not in str(noted)


async def test_a_large_document_is_noted_by_its_size(bench: Bench) -> None:
    await record(bench.store, ANNA, "x", "y", after={"text": "z" * 100_000})
    assert (await newest(bench)).after == {"bytes": 100_011}


async def test_a_change_is_undone_if_its_entry_is_refused(bench: Bench) -> None:
    async def add_and_fail() -> None:
        await bench.store.add_tenant(OTHER)
        raise ValueError("before the entry")

    with pytest.raises(ValueError, match="before the entry"):
        await audited(bench.store, ANNA, "tenant.add", "tenant other", add_and_fail)
    assert await actions(bench) == []
    assert (OTHER in await bench.store.tenants()) is not bench.store.abilities.atomic_audit
