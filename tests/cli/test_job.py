"""`leasehold job`."""

from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from tests.cli.job_samples import one_of_each
from tests.cli.terminal import CommandLine
from tests.store.bench import UNKNOWN_ID, Bench
from tests.tenant_kit import ACME, HOUR

from leasehold.model.job import JobId, LineKind, LogLine
from leasehold.model.outcome import Raised, Released, Snoozed, Trace, decide, with_process
from leasehold.model.process import KeptOutput, ProcessEnd


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
