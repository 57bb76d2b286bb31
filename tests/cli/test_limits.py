"""`leasehold limits`, `limit`, `pause`, `resume`, `tenants` and `counts`."""

import asyncpg
import pytest
from tests.cli.terminal import CommandLine
from tests.store.bench import Bench
from tests.tenant_kit import ACME, HOUR, OTHER

from leasehold.model.job import NewJob


async def test_a_limit_holds_for_the_next_claim(leasehold: CommandLine, bench: Bench) -> None:
    await bench.enqueue_many(3)
    assert (await leasehold("limit", "tenant", "acme", "--max-running", "2")).code == 0
    assert len(await bench.claim(3)) == 2


async def test_a_limit_is_lifted_by_leaving_the_number_out(leasehold: CommandLine, bench: Bench) -> None:
    await bench.enqueue_many(3)
    await leasehold("limit", "definition", "report", "--max-running", "1")
    lifted = await leasehold("limit", "definition", "report")
    assert "definition report has no limit" in lifted.err
    assert len(await bench.claim(3)) == 3


async def test_a_pause_holds_until_it_is_resumed(leasehold: CommandLine, bench: Bench) -> None:
    await bench.enqueue()
    paused = await leasehold("pause", "tenant", "acme", "unpaid")
    assert "tenant acme is paused: unpaid" in paused.err
    assert await bench.claim() == []
    assert (await leasehold("resume", "tenant", "acme")).code == 0
    assert len(await bench.claim()) == 1


async def test_a_pause_for_a_time_ends_by_the_clock_of_the_database(leasehold: CommandLine, bench: Bench) -> None:
    await bench.enqueue()
    await bench.move_clock(10 * HOUR)
    await leasehold("pause", "tenant", "acme", "maintenance", "--for", "2h")
    assert await bench.claim() == []
    await bench.move_clock(3 * HOUR)
    assert len(await bench.claim()) == 1


async def test_limits_and_pauses_are_listed(leasehold: CommandLine, bench: Bench) -> None:
    await leasehold("limit", "tenant", "acme", "--max-running", "2")
    await leasehold("pause", "definition", "report", "broken", "--for", "1h")
    listed, machines = await leasehold("limits"), await leasehold("limits", "--json")
    assert listed.rows[1] == ["tenant", "acme", "2", "–"]
    assert listed.rows[0][:4][-1].startswith("broken (until ")
    assert [(each["kind"], each["key"], each["max_running"]) for each in machines.document] == [
        ("definition", "report", None),
        ("tenant", "acme", 2),
    ]


async def test_what_is_over_is_not_listed(leasehold: CommandLine, bench: Bench) -> None:
    await leasehold("limit", "tenant", "acme", "--max-running", "2")
    await leasehold("limit", "tenant", "acme")
    await leasehold("pause", "definition", "report", "broken", "--for", "1h")
    await bench.move_clock(2 * HOUR)
    assert (await leasehold("limits", "--json")).document == []


async def test_an_unknown_definition_can_be_neither_limited_nor_paused(leasehold: CommandLine, bench: Bench) -> None:
    for words in (["limit", "definition", "reprt"], ["pause", "definition", "reprt", "why"]):
        refused = await leasehold(*words)
        assert refused.code == 3
        assert 'Did you mean "report"?' in refused.err


async def test_a_kind_that_is_neither_exits_with_2(leasehold: CommandLine) -> None:
    assert (await leasehold("pause", "queue", "acme", "why")).code == 2


async def test_tenants_are_listed_by_name(leasehold: CommandLine, bench: Bench) -> None:
    await bench.store.tenant(OTHER).enqueue([NewJob(definition="report")])
    await bench.enqueue()
    assert (await leasehold("tenants")).out.splitlines() == [ACME, OTHER]
    assert (await leasehold("tenants", "--json")).document == [ACME, OTHER]
    assert "maybe more" in (await leasehold("tenants", "-n", "1")).err


async def test_counts_are_by_status_and_of_one_tenant(leasehold: CommandLine, bench: Bench) -> None:
    await bench.succeeded()
    await bench.running()
    await bench.enqueue_many(2)
    await bench.store.tenant(OTHER).enqueue([NewJob(definition="report")])
    counted = (await leasehold("counts", "--tenant", "acme", "--json")).document
    assert (counted["succeeded"], counted["running"], counted["queued"], counted["failed"]) == (1, 1, 2, 0)
    assert ["queued", "2"] in (await leasehold("counts", "--tenant", "acme")).rows


async def test_counts_need_a_tenant(leasehold: CommandLine) -> None:
    refused = await leasehold("counts")
    assert refused.code == 2
    assert "LH-1004" in refused.err


@pytest.mark.parametrize("verb", [["limit"], ["pause"]], ids=" ".join)
async def test_a_tenant_id_with_a_hidden_character_is_refused(leasehold: CommandLine, verb: list[str]) -> None:
    why = ["broken"] if verb == ["pause"] else []
    refused = await leasehold(*verb, "tenant", "ac\u200bme", *why)
    assert (refused.code, "\\u200b" in refused.err, "\u200b" in refused.err) == (2, True, False)
    assert (await leasehold("limits", "--json")).document == []


async def test_hidden_characters_of_stored_tenants_are_escaped(
    leasehold: CommandLine, bench: Bench, database_url: str
) -> None:
    connection = await asyncpg.connect(database_url)
    await connection.execute("insert into leasehold.tenants (id, created_at) values ($1, now())", "ac\u200bme\n")
    await connection.close()
    assert "ac\\u200bme\\u000a" in (await leasehold("tenants")).out.splitlines()


async def test_strict_tenants_are_switched_on_and_off(leasehold: CommandLine, bench: Bench) -> None:
    assert "strict tenants are on" in (await leasehold("tenants", "--strict", "on")).err
    assert (await leasehold("enqueue", "report", "--tenant", "acmee")).code == 3
    assert "tenant acmee is registered" in (await leasehold("tenants", "--add", "acmee")).err
    assert "strict: jobs of other tenants are refused" in (await leasehold("tenants")).err
    assert (await leasehold("enqueue", "report", "--tenant", "acmee")).code == 0
    off = await leasehold("tenants", "--strict", "off", "--json")
    assert off.document == {"tenant": None, "added": False, "strict_tenants": False}
    assert not await bench.store.strict_tenants()
    assert "strict" not in (await leasehold("tenants")).err


async def test_a_switch_is_on_or_off(leasehold: CommandLine) -> None:
    refused = await leasehold("tenants", "--strict", "maybe")
    assert refused.code == 2
    assert "neither on nor off" in refused.err
