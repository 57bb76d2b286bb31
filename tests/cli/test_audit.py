"""`leasehold audit`."""

import asyncpg
from tests.cli.terminal import CommandLine
from tests.store.bench import Bench
from tests.tenant_kit import DAY

from leasehold.cli.actor import cli_actor


async def test_what_a_command_changes_is_listed_with_its_actor(leasehold: CommandLine, bench: Bench) -> None:
    job = await bench.enqueue()
    await leasehold("cancel", job)
    await leasehold("limit", "tenant", "acme", "--max-running", "2")
    await leasehold("tenants", "--add", "globex", "--strict", "on")
    entries = (await leasehold("audit", "--json")).document
    assert [each["action"] for each in entries] == ["tenant.add", "tenants.strict", "tenant.limit", "job.cancel"]
    assert {each["actor"] for each in entries} == {cli_actor().name}
    assert entries[2]["after"] == {"max_running": 2}
    listed = await leasehold("audit", "--tenant", "acme", "--action", "tenant.limit")
    assert listed.rows[0][2:] == ["tenant.limit", "tenant acme", "acme", "max_running: null → 2"]
    assert listed.err == "1 entry\n"


async def test_a_page_names_the_cursor_of_the_next(leasehold: CommandLine, bench: Bench) -> None:
    for verb in ("deactivate", "activate"):
        await leasehold("definitions", verb, "report")
    first = await leasehold("audit", "--limit", "1")
    assert "definition.activate" in first.out
    cursor = first.err.split("--cursor ")[1].strip()
    second = await leasehold("audit", "--limit", "1", "--cursor", cursor)
    assert "definition.deactivate" in second.out
    assert "--cursor" not in second.err


async def test_triggers_that_a_person_changes_are_listed(leasehold: CommandLine, bench: Bench) -> None:
    added = await leasehold("triggers", "add", "report", "--tenant", "acme", "--cron", "0 2 * * *", "--json")
    await leasehold("triggers", "edit", added.document["id"], "--cron", "0 3 * * *")
    await leasehold("triggers", "rm", added.document["id"])
    removed, changed, created = (await leasehold("audit", "--tenant", "acme", "--json")).document
    assert [each["action"] for each in (created, changed, removed)] == [
        "trigger.create",
        "trigger.change",
        "trigger.delete",
    ]
    assert changed["before"]["schedule"]["cron"] == "0 2 * * *"
    assert removed["after"] is None


async def test_prune_deletes_entries_that_are_too_old(
    leasehold: CommandLine, bench: Bench, database_url: str
) -> None:
    await leasehold("definitions", "deactivate", "report")
    connection = await asyncpg.connect(database_url)
    await connection.execute("update leasehold.settings set audit_history = interval '30 days'")
    await connection.close()
    assert (await leasehold("prune", "--json")).document["audit_entries"] == 0
    await bench.move_clock(31 * DAY)
    assert (await leasehold("prune", "--json")).document["audit_entries"] == 1
