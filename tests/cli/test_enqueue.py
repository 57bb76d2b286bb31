"""`leasehold enqueue`."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest
from tests.cli.terminal import NOWHERE, Answer, CommandLine
from tests.conftest import eventually
from tests.store.bench import BROUGHT_ID, Bench, all_jobs

from leasehold.model.job import Claim, JobRecord, LogLine
from leasehold.model.outcome import Canceled
from leasehold.model.status import DisplayState, Status

TO_ACME = ("--tenant", "acme")


async def the_job(bench: Bench) -> JobRecord:
    (job,) = await all_jobs(bench.jobs)
    return job


async def test_the_id_goes_to_stdout_and_the_rest_to_stderr(leasehold: CommandLine, bench: Bench) -> None:
    done = await leasehold("enqueue", "order", "sku=007", *TO_ACME)
    job = await the_job(bench)
    assert (done.code, done.out) == (0, f"{job.id}\n")
    assert done.err == "✓ order enqueued for acme\n"


async def test_fields_are_read_by_the_definitions_schema(leasehold: CommandLine, bench: Bench) -> None:
    await leasehold("enqueue", "order", "sku=007", "count=3", "gift=true", *TO_ACME)
    assert (await the_job(bench)).payload == {"sku": "007", "count": 3, "gift": True}


async def test_a_payload_may_come_whole(leasehold: CommandLine, bench: Bench, tmp_path: Path) -> None:
    file = tmp_path / "order.json"
    file.write_text('{"sku": "b"}')
    await leasehold("enqueue", "order", "--payload", '{"sku": "a"}', *TO_ACME)
    await leasehold("enqueue", "order", "--payload", f"@{file}", *TO_ACME)
    await leasehold("enqueue", "order", "--payload", "-", *TO_ACME, stdin='{"sku": "c"}')
    assert [job.payload["sku"] for job in await all_jobs(bench.jobs)] == ["c", "b", "a"]


async def test_options_reach_the_job(leasehold: CommandLine, bench: Bench) -> None:
    words = ("--priority", "-5", "--dedupe-key", "k", "--correlation-id", "c", "--id", BROUGHT_ID.upper())
    await leasehold("enqueue", "report", "--in", "5m", *words, *TO_ACME)
    job = await the_job(bench)
    assert (job.id, job.priority, job.dedupe_key, job.correlation_id) == (BROUGHT_ID, -5, "k", "c")
    assert job.display is DisplayState.SCHEDULED


async def test_at_is_a_moment(leasehold: CommandLine, bench: Bench) -> None:
    await leasehold("enqueue", "report", "--at", "2099-01-31T09:00+02:00", *TO_ACME)
    assert (await the_job(bench)).scheduled_for == datetime(2099, 1, 31, 7, tzinfo=UTC)


async def test_the_tenant_may_come_from_the_environment(leasehold: CommandLine, bench: Bench) -> None:
    assert (await leasehold("enqueue", "report", LEASEHOLD_TENANT="acme")).code == 0
    assert (await the_job(bench)).tenant == "acme"


async def test_a_key_that_is_held_gives_the_job_that_holds_it(leasehold: CommandLine, bench: Bench) -> None:
    first = await leasehold("enqueue", "report", "--dedupe-key", "k", *TO_ACME)
    again = await leasehold("enqueue", "report", "--dedupe-key", "k", *TO_ACME)
    assert (again.code, again.out) == (0, first.out)
    assert again.err == f"= nothing new was enqueued: job {first.out.strip()} has dedupe key 'k'\n"
    await the_job(bench)


async def test_an_id_that_is_taken_gives_that_job(leasehold: CommandLine, bench: Bench) -> None:
    await leasehold("enqueue", "report", "--id", BROUGHT_ID, *TO_ACME)
    again = await leasehold("enqueue", "report", "--id", BROUGHT_ID.upper(), *TO_ACME)
    assert again.err == f"= nothing new was enqueued: job {BROUGHT_ID} has this id\n"
    await the_job(bench)


async def test_as_json_it_says_whether_the_job_is_new(leasehold: CommandLine, bench: Bench) -> None:
    first = await leasehold("enqueue", "report", "--dedupe-key", "k", "--json", *TO_ACME)
    again = await leasehold("enqueue", "report", "--dedupe-key", "k", "--json", *TO_ACME)
    job = await the_job(bench)
    assert first.document == {"id": job.id, "created": True, "tenant": "acme", "definition": "report"}
    assert again.document == first.document | {"created": False}


REFUSED: dict[str, tuple[list[str], int, str, str]] = {
    "no tenant": (["report"], 2, "LH-1004", "Pass --tenant acme, or set LEASEHOLD_TENANT"),
    "no tenant id": (["report", "-t", " "], 2, "LH-1000", "is not a tenant id"),
    "unknown definition": (["reprot", *TO_ACME], 3, "LH-1002", 'Did you mean "report"?'),
    "no field": (["order", "sku", *TO_ACME], 2, "LH-1000", "'sku' is not a field of a payload"),
    "neither text nor JSON": (["order", "sku=a", "count=b", *TO_ACME], 2, "LH-1001", "count takes no other text"),
    "field twice": (["order", "sku=a", "sku=b", *TO_ACME], 2, "LH-1000", "sku is given twice"),
    "unknown field": (["order", "sku=a", "cout=1", *TO_ACME], 2, "LH-1001", 'did you mean "count"?'),
    "missing field": (["order", *TO_ACME], 2, "LH-1001", '"sku" is a required property'),
    "wrong type": (["order", "sku:=3", *TO_ACME], 2, "LH-1001", "payload.sku"),
    "no JSON": (["order", "--payload", "{sku}", *TO_ACME], 2, "LH-1001", "the text is not JSON"),
    "no object": (["order", "--payload", "[]", *TO_ACME], 2, "LH-1001", "a payload is a JSON object"),
    "no file": (["order", "--payload", "@nowhere", *TO_ACME], 2, "LH-1000", "nowhere can't be read"),
    "both payloads": (["order", "sku=a", "--payload", "{}", *TO_ACME], 2, "LH-1000", "exclude each other"),
    "no delay": (["report", "--in", "soon", *TO_ACME], 2, "LH-1000", "'soon' is not a duration"),
    "foreign digits": (["report", "--in", "٣h", *TO_ACME], 2, "LH-1000", r"'\u0663h' is not a duration"),
    "negative delay": (["report", "--in", "-5m", *TO_ACME], 2, "LH-1000", "'-5m' is not a duration"),
    "endless delay": (["report", "--in", "9999d", *TO_ACME], 2, "LH-1000", "is not between zero and"),
    "no time": (["report", "--at", "noon", *TO_ACME], 2, "LH-1000", "'noon' is not a time"),
    "no zone": (["report", "--at", "2099-01-31T09:00", *TO_ACME], 2, "LH-1000", "has no zone"),
    "both times": (["report", "--in", "5m", "--at", "2099-01-31Z", *TO_ACME], 2, "LH-1000", "exclude each other"),
    "priority": (["report", "--priority", "99999", *TO_ACME], 2, "LH-1000", "is not between -32768 and 32767"),
    "empty delay": (["report", "--in", "", *TO_ACME], 2, "LH-1000", "'' is not a duration"),
    "empty time": (["report", "--at", "", *TO_ACME], 2, "LH-1000", "'' is not a time"),
    "empty payload": (["report", "--payload", "", *TO_ACME], 2, "LH-1001", "the text is not JSON"),
    "empty id": (["report", "--id", "", *TO_ACME], 2, "LH-1000", "'' is not a job id"),
    "empty key": (["report", "--dedupe-key", "", *TO_ACME], 2, "LH-1000", "dedupe key of 0 characters"),
    "empty tenant": (["report", "--tenant", ""], 2, "LH-1004", "needs a tenant"),
    "no id": (["report", "--id", "7", *TO_ACME], 2, "LH-1000", "is not a job id"),
    "timeout alone": (["report", "--timeout", "5s", *TO_ACME], 2, "LH-1000", "--timeout without --wait"),
    "no timeout": (["report", "--wait", "--timeout", "x", *TO_ACME], 2, "LH-1000", "'x' is not a duration"),
    "no database": (["report", "--url", NOWHERE, *TO_ACME], 7, "LH-3001", "can't be reached"),
    "no schema": (["report", "--schema", "fresh", *TO_ACME], 6, "LH-2001", "leasehold migrate"),
}


@pytest.mark.parametrize(("words", "code", "number", "message"), REFUSED.values(), ids=REFUSED)
async def test_what_can_not_be_enqueued_is_refused_and_nothing_is(
    leasehold: CommandLine, bench: Bench, words: list[str], code: int, number: str, message: str
) -> None:
    people, machines = await leasehold("enqueue", *words), await leasehold("enqueue", *words, "--json")
    assert (people.code, machines.code) == (code, code)
    assert people.out == ""
    assert people.err.startswith(f"✕ {number}: ")
    assert message in people.err
    assert "Nothing was" in people.err or number == "LH-3001"
    assert "Traceback" not in people.err
    assert machines.error["code"] == number
    assert machines.error["message"]
    assert machines.error["fix"]
    assert await all_jobs(bench.jobs) == []


async def test_an_inactive_definition_exits_with_4(leasehold: CommandLine, bench: Bench) -> None:
    await bench.store.activate("report", active=False)
    assert (await leasehold("enqueue", "report", *TO_ACME)).code == 4
    assert await all_jobs(bench.jobs) == []


# ------------------------------------------------------------------------------------------------------------ waiting


async def enqueued(leasehold: CommandLine, bench: Bench, *words: str) -> tuple["asyncio.Task[Answer]", Claim]:
    """A command that waits for its job, and the claim of the worker that runs it."""
    waiting = asyncio.create_task(leasehold("enqueue", "report", *words, *TO_ACME))
    claims: list[Claim] = []

    async def claimed() -> bool:
        claims.extend(await bench.claim(1))
        return bool(claims)

    await eventually(claimed, what="the job of the command")
    return waiting, claims[0]


async def test_wait_prints_the_result_of_a_job_that_succeeds(leasehold: CommandLine, bench: Bench) -> None:
    waiting, claim = await enqueued(leasehold, bench, "--wait")
    await bench.succeed(claim, '{"pages": 7}')
    done = await waiting
    assert (done.code, done.out) == (0, f'{claim.job}\n{{"pages":7}}\n')
    assert "✓ succeeded after " in done.err


async def test_wait_exits_with_9_for_a_job_that_ends_badly(leasehold: CommandLine, bench: Bench) -> None:
    waiting, claim = await enqueued(leasehold, bench, "--wait")
    await bench.fail(claim, "no jitter", final=True)
    done = await waiting
    assert (done.code, done.out) == (9, f"{claim.job}\n")
    assert "✕ failed after " in done.err
    assert "Unlucky: no jitter" in done.err


async def test_wait_exits_with_9_for_a_job_that_is_canceled(leasehold: CommandLine, bench: Bench) -> None:
    waiting, claim = await enqueued(leasehold, bench, "--wait", "--json")
    await bench.finish(claim, Canceled())
    done = await waiting
    assert done.code == 9
    assert (done.document["id"], done.document["status"], done.document["created"]) == (claim.job, "canceled", True)


async def test_wait_outlasts_a_retry(leasehold: CommandLine, bench: Bench) -> None:
    waiting, claim = await enqueued(leasehold, bench, "--wait", "--json")
    await bench.fail(claim)
    await bench.jobs.reschedule([claim.job], delay=timedelta())
    await bench.succeed(await bench.claim_one(), "7")
    done = await waiting
    assert (done.code, done.document["result"], done.document["attempt"]) == (0, 7, 2)


async def test_wait_exits_with_8_when_its_time_is_over_and_the_job_goes_on(
    leasehold: CommandLine, bench: Bench
) -> None:
    done = await leasehold("enqueue", "report", "--wait", "--timeout", "10ms", *TO_ACME)
    job = await the_job(bench)
    assert (done.code, done.out) == (8, f"{job.id}\n")
    assert f"still ready after 10 ms; it goes on. See: leasehold job {job.id}" in done.err
    assert job.status is Status.QUEUED


async def test_a_wait_that_times_out_is_a_document_too(leasehold: CommandLine, bench: Bench) -> None:
    waited = await leasehold("enqueue", "report", "--wait", "--timeout", "10ms", "--json", *TO_ACME)
    followed = await leasehold("enqueue", "report", "--follow", "--timeout", "10ms", "--json", *TO_ACME)
    assert (waited.code, followed.code) == (8, 8)
    assert waited.document["status"] == "queued"
    assert [document["event"] for document in followed.documents] == ["enqueued", "timed_out"]


async def test_a_job_that_holds_the_key_is_waited_for_as_well(
    leasehold: CommandLine, bench: Bench, database_url: str
) -> None:
    first = await leasehold("enqueue", "report", "--dedupe-key", "k", *TO_ACME)
    (claim,) = await bench.claim(1)
    assert claim.job == first.out.strip()
    waiting = asyncio.create_task(leasehold("enqueue", "report", "--dedupe-key", "k", "--wait", "--json", *TO_ACME))
    await awaited(database_url)
    await bench.succeed(claim)
    done = await waiting
    assert (done.code, done.document["id"], done.document["created"]) == (0, claim.job, False)


async def awaited(url: str) -> None:
    """Returns when somebody waits for a job: before that, its end would free its key for another."""
    connection = await asyncpg.connect(url)

    async def somebody_waits() -> bool:
        return bool(await connection.fetchval("select exists (select from leasehold.jobs where awaited)"))

    try:
        await eventually(somebody_waits, what="somebody to wait for the job")
    finally:
        await connection.close()


async def test_follow_shows_what_the_job_says_on_stderr(leasehold: CommandLine, bench: Bench) -> None:
    waiting, claim = await enqueued(leasehold, bench, "--follow")
    await bench.store.append_log([(claim, LogLine(number=1, text="half way"))])
    await bench.succeed(claim, "7")
    done = await waiting
    assert (done.code, done.out) == (0, f"{claim.job}\n7\n")
    assert done.err.index("try 1") < done.err.index("half way") < done.err.index("✓ succeeded")


async def test_follow_as_json_is_an_object_a_line(leasehold: CommandLine, bench: Bench) -> None:
    waiting, claim = await enqueued(leasehold, bench, "--follow", "--json")
    await bench.store.append_log([(claim, LogLine(number=1, text="half way"))])
    await bench.fail(claim, final=True)
    done = await waiting
    assert done.code == 9
    first, line, last = done.documents
    assert first == {
        "event": "enqueued",
        "id": claim.job,
        "created": True,
        "tenant": "acme",
        "definition": "report",
    }
    assert (line["event"], line["attempt"], line["text"]) == ("line", 1, "half way")
    assert (last["event"], last["id"], last["status"]) == ("ended", claim.job, "failed")
