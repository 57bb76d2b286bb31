"""`leasehold why`."""

from typing import Any

import asyncpg
from tests.cli.terminal import CommandLine
from tests.store.bench import UNKNOWN_ID, Bench
from tests.tenant_kit import HOUR, OTHER

from leasehold.model.job import JobId
from leasehold.model.limits import Limits, Pause, Scope, ScopeKind

TENANT = Scope(ScopeKind.TENANT, "acme")


async def told(leasehold: CommandLine, job: JobId, *words: str) -> list[str]:
    answer = await leasehold("why", job, *words)
    assert answer.code == 0, answer.err
    return answer.out.splitlines()


async def document(leasehold: CommandLine, job: JobId) -> Any:
    return (await leasehold("why", job, "--json")).document


async def test_a_free_job_starts_as_soon_as_a_worker_looks(leasehold: CommandLine, bench: Bench) -> None:
    await bench.join("report", tenants=None)
    job = await bench.enqueue()
    lines = await told(leasehold, job)
    assert lines[0] == f"▷ ready  report  acme  {job}"
    assert lines[-1] == "It is not known when it will start."  # its worker does not listen
    assert [line for line in lines if line.startswith("✕")] == []
    assert any(line.startswith("✓ it waits to be claimed, it is due for ") for line in lines)


async def test_a_job_that_no_worker_serves_lists_the_workers(leasehold: CommandLine, bench: Bench) -> None:
    await bench.join("email")
    lines = await told(leasehold, await bench.enqueue())
    assert lines[1:4] == [
        "✕ No live worker serves it",
        "  worker bench:1 serves email",
        "  fix: leasehold worker TARGET, with a handler for it that --only and --except let in",
    ]


async def test_a_limit_shows_the_oldest_of_its_jobs(leasehold: CommandLine, bench: Bench) -> None:
    await bench.store.limit(TENANT, Limits(max_running=1))
    claim = await bench.running()
    lines = await told(leasehold, await bench.enqueue())
    assert lines[1] == "✕ Its tenant runs 1 job, which is its limit"
    assert lines[2].startswith(f"  the oldest of them, {claim.job}, has run for ")
    assert lines[3] == "  fix: leasehold limit tenant acme --max-running 2, or wait until one ends"


async def test_a_retry_tells_when_it_starts(leasehold: CommandLine, bench: Bench) -> None:
    claim = await bench.running()
    await bench.fail(claim)
    lines = await told(leasehold, claim.job)
    assert lines[1].startswith("✕ It is due in ")
    assert lines[1].endswith(", for try 2 of 3")
    assert lines[-1].startswith("It should start in ")


async def test_an_ended_job_can_be_retried(leasehold: CommandLine, bench: Bench) -> None:
    job = await bench.dead_lettered()
    lines = await told(leasehold, job)
    assert lines[1].startswith("✕ It has ended ")
    assert lines[2:] == [f"  fix: leasehold retry {job}"]


async def test_a_locked_row_names_the_session(leasehold: CommandLine, bench: Bench) -> None:
    job = await bench.enqueue()
    connection = await asyncpg.connect(leasehold.url, server_settings={"application_name": "your report"})
    try:
        await connection.execute("begin; select from leasehold.jobs for update")
        lines = await told(leasehold, job)
    finally:
        await connection.close()
    assert any(f"(process {connection.get_server_pid()}, your report, idle in transaction)" in line for line in lines)


async def test_the_document_has_every_check_with_its_evidence(leasehold: CommandLine, bench: Bench) -> None:
    await bench.worker()
    await bench.store.pause(TENANT, Pause("unpaid"))
    job = await bench.enqueue(delay=HOUR)
    explained = await document(leasehold, job)
    assert (explained["id"], explained["tenant"], explained["state"]) == (job, "acme", "scheduled")
    assert explained["blocking"] == ["due", "tenant_pause"]
    assert explained["starts_at"] is None
    checks = {check["name"]: check for check in explained["checks"]}
    assert checks["tenant_pause"]["state"] == "blocking"
    assert checks["tenant_pause"]["evidence"]["why"] == "unpaid"
    assert checks["due"]["starts_at"] is not None
    assert checks["definition"]["state"] == "ok"


async def test_secrets_in_a_reason_are_hidden(leasehold: CommandLine, bench: Bench) -> None:
    await bench.store.pause(TENANT, Pause("password=hunter2hunter2"))
    job = await bench.enqueue()
    assert "hunter2hunter2" not in "\n".join(await told(leasehold, job))
    assert "hunter2hunter2" not in (await leasehold("why", job, "--json")).out


async def test_an_unknown_job_exits_with_3(leasehold: CommandLine, bench: Bench) -> None:
    await bench.enqueue()
    for words in ([], ["--tenant", "acme"]):
        refused = await leasehold("why", UNKNOWN_ID, *words)
        assert (refused.code, refused.out) == (3, "")


async def test_a_job_of_another_tenant_is_unknown(leasehold: CommandLine, bench: Bench) -> None:
    job = await bench.enqueue()
    refused = await leasehold("why", job, "--tenant", OTHER)
    assert (refused.code, refused.out) == (3, "")
    assert f'tenant "other" has no job {job}' in refused.err


async def test_a_list_shows_the_same_reason(leasehold: CommandLine, bench: Bench) -> None:
    await bench.worker()
    await bench.store.pause(TENANT, Pause("unpaid"))
    job = await bench.enqueue()
    (row,) = (await leasehold("jobs", "--tenant", "acme")).rows
    explained = await document(leasehold, job)
    assert row[-1] == explained["summary"] == "its tenant is paused: unpaid"
