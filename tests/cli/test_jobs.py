"""`leasehold jobs`."""

import shlex
from datetime import datetime, timedelta

import pytest
from tests.cli.job_samples import one_of_each
from tests.cli.terminal import CommandLine
from tests.store.bench import Bench
from tests.tenant_kit import ACME, HOUR, OTHER

from leasehold.model.job import JobId, NewJob, Source
from leasehold.model.limits import Pause, Scope, ScopeKind
from leasehold.operations.lookup import as_filters, list_matching, read_states
from leasehold.store import Filter, Page


async def test_a_table_has_a_row_for_each_job_newest_first(leasehold: CommandLine, bench: Bench) -> None:
    jobs = await one_of_each(bench)
    listed = await leasehold("jobs", "--tenant", "acme")
    assert listed.code == 0
    assert [(row[0][2:], row[1]) for row in listed.rows] == list(reversed(jobs.items()))
    assert "8 jobs · " in listed.err
    assert " UTC" in listed.err


async def test_the_heading_names_the_tenant_only_where_there_may_be_several(
    leasehold: CommandLine, bench: Bench
) -> None:
    await bench.enqueue()
    everywhere, of_acme = await leasehold("jobs"), await leasehold("jobs", "--tenant", "acme")
    assert everywhere.out.splitlines()[0].split() == ["STATE", "ID", "TENANT", "DEFINITION", "QUEUED", "TRY", "WHY"]
    assert of_acme.out.splitlines()[0].split() == ["STATE", "ID", "DEFINITION", "QUEUED", "TRY", "WHY"]


async def test_a_row_says_how_often_it_was_tried_and_why_it_is_as_it_is(leasehold: CommandLine, bench: Bench) -> None:
    claim = await bench.running()
    await bench.fail(claim, "no jitter\n" + "x" * 300)
    (row,) = (await leasehold("jobs")).rows
    assert row[0] == "↻ retrying"
    assert row[1:4] == [claim.job, "acme", "report"]
    assert row[5] == "1/3"
    assert row[6].startswith("due in ")
    assert row[6].endswith(", after Unlucky: no jitter …")


@pytest.mark.parametrize(
    "state",
    ["ready", "scheduled", "retrying", "running", "succeeded", "failed", "canceled", "dead letter"],
)
async def test_of_each_state_there_are_the_jobs_in_it(leasehold: CommandLine, bench: Bench, state: str) -> None:
    jobs = await one_of_each(bench)
    for words in (["--tenant", "acme"], []):
        found = await leasehold("jobs", "--json", "--state", state.replace(" ", "-"), *words)
        assert [(job["id"], job["state"]) for job in found.document] == [(jobs[state], state)]


async def test_states_may_be_named_together_and_in_other_spellings(leasehold: CommandLine, bench: Bench) -> None:
    jobs = await one_of_each(bench)
    found = await leasehold("jobs", "--json", "-s", "ready", "-s", "retrying", "-s", "done")
    assert {job["id"] for job in found.document} == {jobs["ready"], jobs["retrying"], jobs["succeeded"]}
    queued = await leasehold("jobs", "--json", "-s", "queued")
    assert {job["state"] for job in queued.document} == {"ready", "retrying", "scheduled"}


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
@pytest.mark.parametrize("whose", [["--tenant", "acme"], []], ids=["one tenant", "all tenants"])
async def test_pages_of_several_filters_are_complete_and_in_order(
    leasehold: CommandLine, bench: Bench, whose: list[str], limit: int
) -> None:
    wanted: list[JobId] = []
    for _ in range(2):
        await bench.fail(tried := await bench.running())
        wanted += [tried.job, await bench.failed()]
        await bench.enqueue(delay=HOUR * 24)
        await bench.succeeded()
    for _ in range(2):
        wanted.append(await bench.enqueue())
        await bench.enqueue(delay=HOUR * 24)
    states = ["-s", "ready", "-s", "retrying", "-s", "failed"]
    found: list[JobId] = []
    more: list[str] = []
    while not found or more:
        page = await leasehold("jobs", "--json", *states, "-n", str(limit), *whose, *more)
        assert len(page.document) == min(limit, len(wanted) - len(found))
        found += [job["id"] for job in page.document]
        more = shlex.split(page.err.partition("the same with ")[2])
    assert found == list(reversed(wanted))


async def test_what_one_state_has_left_is_listed_when_the_other_is_used_up(
    leasehold: CommandLine, bench: Bench
) -> None:
    await bench.fail(tried := await bench.running())
    ready = await bench.enqueue()
    first = await leasehold("jobs", "--json", "-s", "ready", "-s", "retrying", "-n", "1")
    more = shlex.split(first.err.partition("the same with ")[2])
    second = await leasehold("jobs", "--json", "-s", "ready", "-s", "retrying", "-n", "1", *more)
    assert [job["id"] for job in first.document + second.document] == [ready, tried.job]
    assert "--cursor" not in second.err


async def test_few_retrying_jobs_are_found_among_many_scheduled(
    bench: Bench,
) -> None:
    ready = await bench.enqueue()
    for _ in range(9):
        await bench.enqueue(delay=HOUR)
    asked: list[int] = []

    async def find(where: Filter, cursor: str | None, limit: int) -> Page:
        asked.append(limit)
        return await bench.jobs.find(where, cursor, limit)

    page = await list_matching(find, as_filters(read_states(["ready", "failed"])), None, 2)
    assert ([job.id for job in page.jobs], page.next, asked) == ([ready], None, [2])


@pytest.mark.parametrize("cursor", ["x", "[]", "[1, 2]", "7"])
async def test_a_cursor_of_other_states_exits_with_2(leasehold: CommandLine, cursor: str) -> None:
    refused = await leasehold("jobs", "-s", "ready", "-s", "retrying", "--cursor", cursor)
    assert (refused.code, refused.out) == (2, "")
    assert "is not a cursor of this listing" in refused.err


async def test_jobs_are_listed_by_source(leasehold: CommandLine, bench: Bench) -> None:
    await bench.enqueue()
    fired = await bench.enqueue(source=Source.SCHEDULE)
    found = await leasehold("jobs", "--json", "--source", "schedule")
    assert [job["id"] for job in found.document] == [fired]
    assert (await leasehold("jobs", "--source", "nowhere")).code == 2


async def test_jobs_are_listed_by_the_time_of_their_enqueue(leasehold: CommandLine, bench: Bench) -> None:
    jobs = []
    for _ in range(3):
        jobs.append(await bench.enqueue())
        await bench.move_clock(HOUR)
    middle = (await bench.job(jobs[1])).queued_at
    after = await leasehold("jobs", "--json", "--after", middle.isoformat())
    assert [job["id"] for job in after.document] == [jobs[2], jobs[1]]
    before = await leasehold("jobs", "--json", "--before", middle.isoformat())
    assert [job["id"] for job in before.document] == [jobs[0]]


@pytest.mark.parametrize("option", ["--after", "--before"])
@pytest.mark.parametrize("moment", ["yesterday", "2030-01-31T09:00"])
async def test_a_time_that_names_no_moment_exits_with_2(leasehold: CommandLine, option: str, moment: str) -> None:
    refused = await leasehold("jobs", option, moment)
    assert (refused.code, refused.out) == (2, "")
    assert f"{option}: {moment!r}" in refused.err
    assert "Nothing was done." in refused.err


async def test_a_state_that_is_none_exits_with_2_and_the_nearest(leasehold: CommandLine) -> None:
    refused = await leasehold("jobs", "--state", "runing")
    assert refused.code == 2
    assert 'Did you mean "running"?' in refused.err


async def test_jobs_are_found_by_definition_and_by_correlation_id(leasehold: CommandLine, bench: Bench) -> None:
    report = await bench.enqueue("report", correlation_id="c-1")
    email = await bench.enqueue("email")
    of_email = await leasehold("jobs", "--json", "--definition", "email")
    of_both = await leasehold("jobs", "--json", "-d", "email", "-d", "report")
    correlated = await leasehold("jobs", "--json", "--correlation-id", "c-1")
    assert [[job["id"] for job in each.document] for each in (of_email, of_both, correlated)] == [
        [email],
        [email, report],
        [report],
    ]


async def test_the_tenant_of_the_environment_yields_to_all_tenants(leasehold: CommandLine, bench: Bench) -> None:
    mine = await bench.enqueue()
    (others,) = await bench.store.tenant(OTHER).enqueue([NewJob(definition="report")])
    some = await leasehold("jobs", "--json", LEASEHOLD_TENANT="acme")
    every = await leasehold("jobs", "--json", "--all-tenants", LEASEHOLD_TENANT="acme")
    assert [job["id"] for job in some.document] == [mine]
    assert [job["id"] for job in every.document] == [others.id, mine]
    unset = await leasehold("jobs", "--json", LEASEHOLD_TENANT="")
    assert unset.document == every.document


@pytest.mark.parametrize("whose", [["--tenant", "acme"], []])
async def test_the_next_page_is_where_the_last_line_says(
    leasehold: CommandLine, bench: Bench, whose: list[str]
) -> None:
    jobs = [await bench.enqueue() for _ in range(3)]
    first = await leasehold("jobs", "--limit", "2", *whose)
    assert [row[1] for row in first.rows] == [jobs[2], jobs[1]]
    cursor = first.err.partition("more: the same with --cursor ")[2].strip()
    last = await leasehold("jobs", "--limit", "2", "--cursor", cursor, *whose)
    assert [row[1] for row in last.rows] == [jobs[0]]
    assert "--cursor" not in last.err


async def test_a_cursor_that_is_none_exits_with_2(leasehold: CommandLine) -> None:
    refused = await leasehold("jobs", "--cursor", "x", "--json")
    assert refused.code == 2
    assert refused.error["message"] == "'x' is not a cursor of this listing."


async def test_without_jobs_stdout_is_empty_and_json_an_empty_list(leasehold: CommandLine) -> None:
    people, machines = await leasehold("jobs"), await leasehold("jobs", "--json")
    assert (people.out, people.code) == ("", 0)
    assert "0 jobs · " in people.err
    assert machines.document == []


async def test_a_ready_job_says_what_holds_it_back(leasehold: CommandLine, bench: Bench) -> None:
    job = await bench.enqueue()
    await bench.store.pause(Scope(ScopeKind.TENANT, ACME), Pause("[unpaid]"))
    expected = ["its tenant is paused: [unpaid]", "no live worker serves it"]
    assert (await leasehold("jobs")).rows[0][-1] == "; ".join(expected)
    assert f"  why             {'; '.join(expected)}\n" in (await leasehold("job", job)).out
    assert (await leasehold("jobs", "--json")).document[0]["held_by"] == expected
    assert (await leasehold("job", job, "--json")).document["held_by"] == expected


async def test_a_ready_job_that_nothing_holds_waits_for_a_slot(leasehold: CommandLine, bench: Bench) -> None:
    await bench.worker()
    await bench.enqueue()
    assert (await leasehold("jobs")).rows[0][-1] == "waits for a free slot"
    assert (await leasehold("jobs", "--json")).document[0]["held_by"] == []


async def test_times_are_iso_8601_in_utc_for_machines(leasehold: CommandLine, bench: Bench) -> None:
    await bench.enqueue()
    (job,) = (await leasehold("jobs", "--json")).document
    assert job["queued_at"].endswith("Z")
    assert datetime.fromisoformat(job["queued_at"]).utcoffset() == timedelta()
    assert (job["status"], job["state"]) == ("queued", "ready")


async def test_nothing_that_a_handler_said_reaches_the_terminal_raw(leasehold: CommandLine, bench: Bench) -> None:
    await bench.fail(await bench.running(), "\x1b]0;owned\x07 [red]", final=True)
    listed, whole = await leasehold("jobs"), await leasehold("job", (await leasehold("jobs")).rows[0][1])
    assert "\x1b" not in listed.out + whole.out
    assert "␛]0;owned␇ [red]" in listed.out
    assert "␛]0;owned␇ [red]" in whole.out
