"""`leasehold usage`."""

import csv
from datetime import timedelta

from tests.cli.terminal import CommandLine
from tests.store.bench import Bench
from tests.tenant_kit import ACME

from leasehold.model.outcome import SUCCEEDED, with_cpu


async def use(bench: Bench) -> None:
    """A report of 90 s with 1.5 s of processor time, and an email of 2 s of which that is not known."""
    claim = await bench.running()
    await bench.move_clock(timedelta(seconds=90))
    await bench.store.finish([(claim, with_cpu(SUCCEEDED, 1.5))])
    claim = await bench.running("email")
    await bench.move_clock(timedelta(seconds=2))
    await bench.fail(claim, final=True)


async def test_usage_is_a_table_by_tenant_and_definition(leasehold: CommandLine, bench: Bench) -> None:
    await use(bench)
    shown = await leasehold("usage")
    assert shown.code == 0
    assert [row[:3] for row in shown.rows if row[0] == ACME] == [
        [ACME, "report", "1"],
        [ACME, "email", "1"],
    ]
    assert "1m 30s" in shown.out
    assert "attempts" in shown.err


async def test_usage_is_a_document(leasehold: CommandLine, bench: Bench) -> None:
    await use(bench)
    found = (await leasehold("usage", "--tenant", ACME, "--by", "definition", "--json")).document
    assert [(row["definition_key"], row["cpu_seconds"], row["cpu_unknown_attempts"]) for row in found["rows"]] == [
        ("report", 1.5, 0),
        ("email", None, 1),
    ]
    assert found["rows"][0]["run_seconds"] >= 90
    assert (found["total"]["attempts"], found["total"]["cpu_seconds"]) == (2, 1.5)


async def test_usage_is_lines_with_commas(leasehold: CommandLine, bench: Bench) -> None:
    await use(bench)
    shown = await leasehold("usage", "--tenant", ACME, "--by", "definition", "--by", "hour", "--csv")
    lines = list(csv.DictReader(shown.out.splitlines()))
    assert {(line["definition_key"], line["attempts"], line["cpu_seconds"]) for line in lines} == {
        ("report", "1", "1.5"),
        ("email", "1", ""),
    }
    assert all(line["at"].endswith(":00:00Z") for line in lines)
    assert (await leasehold("usage", "--csv", "--json")).code == 2
