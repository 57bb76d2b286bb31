"""The record of a job: its attempts and their log lines."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.store.bench import UNKNOWN_ID, Bench, EngineUnderTest
from tests.tenant_kit import HOUR, OTHER, SECOND

from leasehold.model.job import Claim, LineKind, LogLine
from leasehold.model.outcome import Raised, Released, Snoozed, Succeeded, Trace, decide, with_process
from leasehold.model.process import KeptOutput, ProcessEnd
from leasehold.model.status import AttemptStatus


async def say(bench: Bench, claim: Claim, *lines: LogLine) -> None:
    assert await bench.store.append_log([(claim, line) for line in lines]) == frozenset()


async def test_a_job_that_never_ran_has_no_attempts(bench: Bench) -> None:
    assert list(await bench.jobs.attempts(await bench.enqueue())) == []


async def test_an_unknown_job_has_no_attempts(bench: Bench) -> None:
    assert list(await bench.jobs.attempts(UNKNOWN_ID)) == []


async def test_another_tenants_job_has_no_attempts_and_no_lines(engine: EngineUnderTest) -> None:
    claim = await Bench(engine).running()
    await say(Bench(engine), claim, LogLine(1, "secret"))
    other = Bench(engine, OTHER)
    assert list(await other.jobs.attempts(claim.job)) == []
    assert list(await other.jobs.lines(claim.job, 1)) == []


async def test_the_running_attempt_is_there(bench: Bench) -> None:
    claim = await bench.running()
    (attempt,) = await bench.jobs.attempts(claim.job)
    assert (attempt.number, attempt.status, attempt.worker) == (1, AttemptStatus.RUNNING, claim.worker)
    assert (attempt.started_at, attempt.finished_at, attempt.error) == (claim.started_at, None, None)


async def test_the_attempt_of_a_clean_success_is_there(bench: Bench) -> None:
    claim = await bench.running()
    await bench.move_clock(HOUR)
    await bench.succeed(claim)
    (attempt,) = await bench.jobs.attempts(claim.job)
    assert (attempt.number, attempt.status, attempt.worker) == (1, AttemptStatus.SUCCEEDED, claim.worker)
    assert attempt.started_at == claim.started_at
    assert attempt.finished_at == (await bench.job(claim.job)).finished_at


async def test_the_name_of_a_worker_outlives_it(bench: Bench) -> None:
    registration = await bench.join()
    await bench.fail(claim := await bench.running(registration=registration), final=True)
    await bench.succeed(other := await bench.running(registration=registration))
    await bench.store.leave(registration)
    for ended in (claim, other):
        (attempt,) = await bench.jobs.attempts(ended.job)
        assert (attempt.host, attempt.pid) == ("bench", 1)
        assert attempt.worker_name == f"bench:1:{registration.worker}"


async def test_the_end_of_a_process_stays_with_its_attempt(bench: Bench) -> None:
    output = KeptOutput(3, "", "hi\n")
    for exit_code, outcome in ((0, Succeeded()), (3, Raised("exit_3", "exited with 3", final=True))):
        claim = await bench.running()
        end = ProcessEnd(("/bin/echo", "hi"), 42, exit_code, stdout=output)
        await bench.store.finish([(claim, with_process(decide(outcome, claim, jitter=0), end))])
        (attempt,) = await bench.jobs.attempts(claim.job)
        assert attempt.exit_code == exit_code
        assert (attempt.details["pid"], attempt.details["stdout_tail"]) == (42, "hi\n")


async def test_attempts_are_listed_in_their_order_with_their_own_workers(bench: Bench) -> None:
    first = await bench.running(registration=await bench.join())
    await bench.fail(first, "the first time")
    await bench.move_clock(10 * SECOND)
    second = await bench.claim_one(await bench.join())
    await bench.finish(second, Snoozed(HOUR))
    await bench.move_clock(HOUR)
    third = await bench.claim_one()
    await bench.succeed(third)
    attempts = await bench.jobs.attempts(first.job)
    assert [attempt.number for attempt in attempts] == [1, 2, 3]
    assert [attempt.worker for attempt in attempts] == [claim.worker for claim in (first, second, third)]
    assert [attempt.status for attempt in attempts] == [
        AttemptStatus.FAILED,
        AttemptStatus.SNOOZED,
        AttemptStatus.SUCCEEDED,
    ]
    assert [attempt.error for attempt in attempts] == ["the first time", None, None]


async def test_a_retry_that_runs_is_listed_beside_what_was_before(bench: Bench) -> None:
    await bench.fail(await bench.running())
    await bench.move_clock(10 * SECOND)
    claim = await bench.claim_one()
    assert await bench.history(claim.job) == [(1, AttemptStatus.FAILED), (2, AttemptStatus.RUNNING)]


async def test_an_error_of_any_characters_is_kept(bench: Bench) -> None:
    text = 'quotes \' " \\ {"json": [1]} %s $1 ü 😀 \n\t' * 50
    claim = await bench.running()
    await bench.fail(claim, text)
    assert (await bench.last_attempt(claim.job)).error == text
    assert (await bench.job(claim.job)).last_error == text


@pytest.mark.parametrize("final", [False, True], ids=["queued again", "given up"])
async def test_an_attempt_keeps_where_its_error_came_from(bench: Bench, final: bool) -> None:
    trace = Trace("app.py:14 in fetch", 'File "app.py", line 14, in fetch\n  \0 \ud800 ü {} \\')
    claim, other = await bench.running(), await bench.running()
    await bench.finish_all(
        [(claim, Raised("Unlucky", "no jitter", final=final, trace=trace)), (other, Raised("E", "e"))]
    )
    details = (await bench.last_attempt(claim.job)).details
    assert details["where"] == "app.py:14 in fetch"
    assert details["traceback"].startswith('File "app.py", line 14, in fetch\n')
    assert (await bench.last_attempt(other.job)).details == {}


async def test_a_cancel_instead_of_a_retry_keeps_the_error(bench: Bench) -> None:
    claim = await bench.running()
    await bench.jobs.cancel([claim.job])
    await bench.finish(claim, Raised("Unlucky", "no jitter", trace=Trace("app.py:14 in fetch", "…")))
    assert (await bench.last_attempt(claim.job)).details["where"] == "app.py:14 in fetch"


async def test_lines_are_kept_in_the_order_of_their_numbers(bench: Bench) -> None:
    claim = await bench.running()
    await say(bench, claim, LogLine(2, "two"), LogLine(1, "one"))
    await say(bench, claim, LogLine(10, "ten"), LogLine(3, "three"))
    lines = await bench.jobs.lines(claim.job, 1)
    assert [(line.number, line.text) for line in lines] == [(1, "one"), (2, "two"), (3, "three"), (10, "ten")]


async def test_a_line_is_stamped_by_the_engines_clock(bench: Bench) -> None:
    await bench.move_clock(365 * timedelta(days=1))
    claim = await bench.running()
    await say(bench, claim, LogLine(1, "in a year"))
    (line,) = await bench.jobs.lines(claim.job, 1)
    assert line.at is not None
    assert line.at - datetime.now(UTC) > timedelta(days=364)


@pytest.mark.parametrize("kind", LineKind)
async def test_a_line_keeps_its_kind_and_progress(bench: Bench, kind: LineKind) -> None:
    claim = await bench.running()
    await say(bench, claim, LogLine(1, "half of it", kind, progress=0.5))
    (line,) = await bench.jobs.lines(claim.job, 1)
    assert (line.text, line.kind, line.progress) == ("half of it", kind, 0.5)


async def test_a_line_without_progress_has_none(bench: Bench) -> None:
    claim = await bench.running()
    await say(bench, claim, LogLine(1, "hello"))
    (line,) = await bench.jobs.lines(claim.job, 1)
    assert (line.kind, line.progress) == (LineKind.LOG, None)


async def test_a_repeated_line_is_kept_once(bench: Bench) -> None:
    claim = await bench.running()
    await say(bench, claim, LogLine(1, "once"))
    await say(bench, claim, LogLine(1, "once"), LogLine(2, "and on"))
    assert await bench.texts(claim) == ["once", "and on"]


async def test_a_line_repeated_within_one_call_is_kept_once(bench: Bench) -> None:
    claim = await bench.running()
    await say(bench, claim, LogLine(1, "once"), LogLine(1, "once"))
    assert await bench.texts(claim) == ["once"]


async def test_lines_can_be_read_on_from_where_one_stopped(bench: Bench) -> None:
    claim = await bench.running()
    await say(bench, claim, *(LogLine(number, str(number)) for number in range(1, 6)))
    assert [line.number for line in await bench.jobs.lines(claim.job, 1, after=3)] == [4, 5]


async def test_the_last_lines_of_attempts_come_in_order(engine: EngineUnderTest) -> None:
    bench = Bench(engine)
    claim = await bench.running()
    await say(bench, claim, *(LogLine(number, f"line {number}") for number in range(1, 6)))
    assert [line.number for _, line in await bench.jobs.last_lines(claim.job, 1, 2)] == [4, 5]
    assert [line.number for _, line in await bench.jobs.last_lines(claim.job, 1, 10)] == [1, 2, 3, 4, 5]
    assert list(await Bench(engine, OTHER).jobs.last_lines(claim.job, 1, 10)) == []


async def test_each_attempt_has_its_own_lines(bench: Bench) -> None:
    first = await bench.running()
    await say(bench, first, LogLine(1, "first life"))
    await bench.finish(first, Released())
    second = await bench.claim_one()
    await say(bench, second, LogLine(1, "second life"))
    assert (await bench.texts(first), await bench.texts(second)) == (["first life"], ["second life"])


async def test_lines_are_still_there_when_the_job_has_ended(bench: Bench) -> None:
    claim = await bench.running()
    await say(bench, claim, LogLine(1, "last words"))
    await bench.succeed(claim)
    assert await bench.texts(claim) == ["last words"]


@pytest.mark.abilities("fenced_logs")
async def test_many_claims_speak_in_one_call_and_only_the_stale_is_refused(bench: Bench) -> None:
    stale, live = await bench.running(), await bench.running()
    await bench.succeed(stale)
    spoken = [(stale, LogLine(1, "too late")), (live, LogLine(1, "in time")), (live, LogLine(2, "too"))]
    assert await bench.store.append_log(spoken) == {stale}
    assert (await bench.texts(stale), await bench.texts(live)) == ([], ["in time", "too"])


async def test_speaking_changes_nothing_about_the_job(bench: Bench) -> None:
    claim = await bench.running()
    before = await bench.job(claim.job)
    await say(bench, claim, LogLine(1, "hello"), LogLine(2, "", LineKind.PROGRESS, 0.5))
    assert await bench.job(claim.job) == before


async def test_an_unknown_job_has_no_lines(bench: Bench) -> None:
    assert list(await bench.jobs.lines(UNKNOWN_ID, 1)) == []


async def test_saying_nothing_refuses_nothing(bench: Bench) -> None:
    assert await bench.store.append_log([]) == frozenset()


async def test_a_line_that_can_not_be_stored_spoils_no_other_line(bench: Bench) -> None:
    claim = await bench.running()
    await say(
        bench, claim, LogLine(1, "nul \0 and \ud800"), LogLine(2, "x" * 20_000), LogLine(3, "far", progress=1e300)
    )
    said = await bench.jobs.lines(claim.job, 1)
    assert [line.number for line in said] == [1, 2, 3]
    assert said[0].text.startswith("nul ")
    assert len(said[1].text) == 10_000
    assert said[2].progress == 1
