"""`leasehold jobs` and `leasehold job`."""

import shlex
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import pytest
from tests.cli.terminal import CommandLine
from tests.store.bench import UNKNOWN_ID, Bench
from tests.tenant_kit import ACME, HOUR, OTHER

from leasehold.model.job import JobId, LineKind, LogLine, NewJob
from leasehold.model.limits import Pause, Scope, ScopeKind
from leasehold.model.outcome import Raised, Released, Snoozed, Trace, decide, with_process
from leasehold.model.process import KeptOutput, ProcessEnd
from leasehold.operations.lookup import as_filters, list_matching, read_states
from leasehold.store import Filter, Page


async def one_of_each(bench: Bench) -> dict[str, JobId]:
    """A job in each state that people see."""
    jobs = {
        "succeeded": await bench.succeeded(),
        "failed": await bench.failed(),
        "canceled": await bench.canceled(),
        "dead letter": await bench.dead_lettered(),
    }
    tried = await bench.running()
    await bench.fail(tried, "no jitter")
    jobs["retrying"] = tried.job
    jobs["running"] = (await bench.running()).job
    jobs["scheduled"] = await bench.enqueue(delay=HOUR)
    jobs["ready"] = await bench.enqueue()
    return jobs


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


async def test_job_shows_all_that_is_known(leasehold: CommandLine, bench: Bench) -> None:
    claim = await bench.running(
        payload={"note": "ä", "page": 7}, correlation_id="c-1", dedupe=None, created_by="ann", priority=5
    )
    await bench.store.append_log(
        [(claim, LogLine(number=n, text=f"line {n}", kind=LineKind.LOG)) for n in range(1, 15)]
    )
    await bench.fail(claim, "no jitter\nat all")
    await bench.move_clock(HOUR)
    again = await bench.claim_one()
    await bench.store.append_log([(again, LogLine(number=1, text="second time"))])
    await bench.succeed(again, '{"pages": 7}')

    shown = await leasehold("job", claim.job)
    assert shown.code == 0
    for part in (
        "✓ succeeded  report  acme",
        f"  id              {claim.job}\n",
        "  definition      report, version 1\n",
        "  tries           2/3\n",
        "  priority        5\n",
        "  created by      ann\n",
        "  correlation id  c-1\n",
        '    "note": "ä",\n    "page": 7\n',
        '    "pages": 7\n',
        "\nlast error\n  Unlucky: no jitter\n  at all\n",
        "  why             took ",
        "last lines of try 2\n",
        " second time\n",
    ):
        assert part in shown.out, part
    first, second = (line for line in shown.out.splitlines() if line[:2] in ("1 ", "2 "))
    assert "failed" in first
    assert first.endswith("Unlucky: no jitter …")
    assert "succeeded" in second


async def test_lines_before_a_snooze_are_of_the_latest_try(leasehold: CommandLine, bench: Bench) -> None:
    first = await bench.running()
    await bench.store.append_log([(first, LogLine(number=1, text="waiting for the upload"))])
    await bench.finish(first, Snoozed(timedelta()))
    second = await bench.claim_one()
    assert "waiting for the upload" in (await leasehold("job", second.job)).out
    (line,) = (await leasehold("job", second.job, "--json")).document["lines"]
    assert (line["attempt"], line["text"]) == (1, "waiting for the upload")


async def test_of_many_lines_the_last_are_shown(leasehold: CommandLine, bench: Bench) -> None:
    claim = await bench.running()
    await bench.store.append_log([(claim, LogLine(number=n, text=f"line {n}")) for n in range(1, 15)])
    shown = (await leasehold("job", claim.job)).out
    assert "line 14" in shown
    assert "line 5" in shown
    assert "line 4\n" not in shown


async def test_the_error_of_an_ended_job_is_shown_whole(leasehold: CommandLine, bench: Bench) -> None:
    await bench.fail(claim := await bench.running(), "no jitter\nat all", final=True)
    assert "\nerror\n  Unlucky: no jitter\n  at all\n" in (await leasehold("job", claim.job[-8:])).out


async def test_job_shows_where_attempts_failed_and_the_last_traceback(leasehold: CommandLine, bench: Bench) -> None:
    for number in (1, 2):
        claim = await bench.running() if number == 1 else await bench.claim_one()
        trace = Trace(f"app.py:{number} in fetch", f"Traceback of attempt {number}:\n  …")
        await bench.finish(claim, Raised("KeyError", "no row\nat all", trace=trace))
        await bench.move_clock(HOUR)
    shown = (await leasehold("job", claim.job)).out
    first, second = (line for line in shown.splitlines() if line[:2] in ("1 ", "2 "))
    assert first.endswith("KeyError: no row … (app.py:1 in fetch)")
    assert second.endswith("KeyError: no row … (app.py:2 in fetch)")
    assert "\ntraceback of try 2\n  Traceback of attempt 2:\n    …\n" in shown
    assert "Traceback of attempt 1" not in shown


async def test_job_shows_the_process_of_a_command(leasehold: CommandLine, bench: Bench) -> None:
    claim = await bench.running()
    output = KeptOutput(3_000_000, "", "hi\n"), KeptOutput(5, "", "no \x1b[31m\n")
    end = ProcessEnd(("/bin/report", "--for=a b"), 4242, 3, stdout=output[0], stderr=output[1])
    verdict = decide(Raised("exit_3", "exited with 3: no", final=True), claim, jitter=0)
    await bench.store.finish([(claim, with_process(verdict, end))])
    shown = (await leasehold("job", claim.job)).out
    for part in (
        "\nprocess of try 1\n",
        "  command         /bin/report '--for=a b'\n",
        "  ended           exit code 3, pid 4242\n",
        "  output          3,000,000 bytes, errors 5 bytes\n",
        "\nlast errors of try 1\n  no ␛[31m\n",
        f"bench:1:{claim.worker[-8:]}",
    ):
        assert part in shown, part
    (attempt,) = (await leasehold("job", claim.job, "--json")).document["attempts"]
    assert (attempt["exit_code"], attempt["worker"]) == (3, f"bench:1:{claim.worker}")
    assert (attempt["details"]["pid"], attempt["details"]["stdout_tail"]) == (4242, "hi\n")


async def test_an_attempt_that_its_worker_gave_back_is_shown_so(leasehold: CommandLine, bench: Bench) -> None:
    await bench.finish(claim := await bench.running(), Released())
    (attempt,) = (line for line in (await leasehold("job", claim.job)).out.splitlines() if line.startswith("1 "))
    assert "given back" in attempt


async def test_job_as_json_has_its_attempts_and_lines(leasehold: CommandLine, bench: Bench) -> None:
    claim = await bench.running(payload={"page": 7})
    await bench.store.append_log([(claim, LogLine(number=1, text="half", kind=LineKind.PROGRESS, progress=0.5))])
    await bench.succeed(claim, "[1]")
    found = (await leasehold("job", claim.job, "--json")).document
    assert (found["id"], found["status"], found["payload"], found["result"]) == (
        claim.job,
        "succeeded",
        {"page": 7},
        [1],
    )
    assert [(attempt["number"], attempt["status"]) for attempt in found["attempts"]] == [(1, "succeeded")]
    assert [(line["attempt"], line["kind"], line["progress"], line["text"]) for line in found["lines"]] == [
        (1, "progress", 0.5, "half")
    ]


async def test_a_job_that_is_not_there_exits_with_3(leasehold: CommandLine, bench: Bench) -> None:
    job = await bench.enqueue()
    nobodys = await leasehold("job", UNKNOWN_ID, "--json")
    anothers = await leasehold("job", job, "--tenant", "other", "--json")
    assert (nobodys.code, nobodys.error["code"]) == (3, "LH-1008")
    assert (anothers.code, anothers.error["code"]) == (3, "LH-1008")


async def test_a_short_id_of_several_jobs_exits_with_2(leasehold: CommandLine, bench: Bench) -> None:
    for begin in ("01890a5d", "01890a5e"):
        await bench.enqueue(id=JobId(f"{begin}-ac96-774b-bcce-b302099a8057"))
    refused = await leasehold("job", "a8057")
    assert refused.code == 2
    assert "01890a5e-ac96-774b-bcce-b302099a8057 (acme, report, ready)" in refused.err


class Counted:
    """Counts the connections of a command, and its statements besides the check that begins a connection."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.connections = 0
        self.statements: list[str] = []
        self._connect = asyncpg.connect
        monkeypatch.setattr(asyncpg, "connect", self._connect_and_count)

    async def _connect_and_count(self, *arguments: Any, **options: Any) -> Any:
        connection = await self._connect(*arguments, **options)
        self.connections += 1
        connection.add_query_logger(self._count)
        return connection

    def _count(self, record: Any) -> None:
        if "leasehold_session.kind" not in record.query:
            self.statements.append(record.query)


@pytest.mark.parametrize("state", ["ready", "retrying", "running", "succeeded", "dead letter", "ready again"])
async def test_job_takes_at_most_5_statements_on_1_connection(
    leasehold: CommandLine, bench: Bench, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    claim = await bench.running()
    await bench.store.append_log([(claim, LogLine(number, f"line {number}")) for number in range(1, 31)])
    jobs = await one_of_each(bench)
    await bench.fail(claim, "no jitter")
    if state == "ready again":
        await bench.store.tenant(ACME).reschedule([claim.job], delay=timedelta())
    counted = Counted(monkeypatch)
    shown = await leasehold("job", jobs.get(state, claim.job), "--json")
    assert shown.code == 0, shown.err
    assert counted.connections == 1
    assert len(counted.statements) <= 5, counted.statements
    if state == "ready again":
        assert shown.document["state"] == "ready"
        assert [line["text"] for line in shown.document["lines"]] == [f"line {number}" for number in range(21, 31)]
