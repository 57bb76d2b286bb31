"""The document of what happens now: rates, the busiest first, pauses, workers and the statements that it takes."""

from datetime import timedelta

import pytest
from tests.store.bench import Bench
from tests.tenant_kit import ACME, DAY

from leasehold import engine
from leasehold.model.audit import Actor
from leasehold.model.limits import Scope, ScopeKind
from leasehold.operations import activity, admin
from leasehold.store import Subscription, WorkerFacts

MOST_STATEMENTS = 3


async def test_definitions_and_tenants_are_added_up(bench: Bench) -> None:
    await bench.enqueue_many(3)
    await bench.enqueue(definition="email")
    await bench.claim_one()
    found = await activity.read(bench.store)
    assert [(row["key"], row["ready"] + row["running"]) for row in found["definitions"][:2]] == [
        ("report", 3),
        ("email", 1),
    ]
    (acme,) = (row for row in found["tenants"] if row["key"] == ACME)
    assert (acme["ready"], acme["running"]) == (3, 1)
    assert (found["totals"]["ready"], found["totals"]["running"]) == (3, 1)


@pytest.mark.abilities("series")
async def test_rates_are_jobs_a_second(bench: Bench) -> None:
    for _ in range(6):
        await bench.succeeded()
    await bench.dead_lettered()
    found = await activity.read(bench.store)
    (report,) = (row for row in found["definitions"] if row["key"] == "report")
    assert (report["succeeded"], report["dead_letter"], report["failed_tries"]) == (0.1, 0.017, 0.017)
    assert found["totals"]["succeeded"] == 0.1


async def test_a_definition_that_a_worker_serves_is_shown_without_jobs(bench: Bench) -> None:
    facts = WorkerFacts(host="host-2", pid=4411, slots=8)
    await bench.store.join(Subscription(("email",)), facts, DAY)
    await bench.store.join(Subscription(("email",)), facts, timedelta())
    found = await activity.read(bench.store)
    assert [(row["key"], row["workers"]) for row in found["definitions"]] == [("email", 1)]
    assert (found["totals"]["workers"], found["totals"]["slots"]) == (1, 8)
    assert sorted(row["state"] for row in found["workers"]) == ["gone", "live"]


async def test_a_pause_is_shown_with_its_reason(bench: Bench) -> None:
    await bench.enqueue()
    for kind, key in ((ScopeKind.TENANT, ACME), (ScopeKind.DEFINITION, "report")):
        await admin.pause(bench.store, Scope(kind, key), f"the {kind.value} rests", None, Actor("test"))
    found = await activity.read(bench.store)
    assert [row["paused_because"] for row in found["definitions"]] == ["the definition rests"]
    assert [row["paused_because"] for row in found["tenants"]] == ["the tenant rests"]


async def test_names_beyond_the_shown_ones_are_counted(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "SHOWN", 1)
    await bench.enqueue()
    await bench.enqueue(definition="email")
    found = await activity.read(bench.store)
    assert (len(found["definitions"]), found["more_definitions"]) == (1, 1)
    assert found["totals"]["ready"] == 2


@pytest.mark.abilities("series")
async def test_a_look_takes_three_statements_however_much_there_is(bench: Bench, kit: engine.TestKit) -> None:
    await activity.read(bench.store)  # opens connections
    before = len(kit.statements())
    await activity.read(bench.store)
    assert len(kit.statements()) - before == MOST_STATEMENTS
    await bench.succeeded()
    await bench.enqueue_many(50)
    await bench.join("email")
    before = len(kit.statements())
    await activity.read(bench.store)
    assert len(kit.statements()) - before == MOST_STATEMENTS
