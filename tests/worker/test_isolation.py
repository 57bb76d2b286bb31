"""Handlers in processes of their own: what they can do, and how they are stopped."""

import os
import signal
from datetime import timedelta

import pytest
from tests.tenant_kit import HOUR
from tests.worker.isolated_kit import APP, Isolated, is_alive, until_ended
from tests.worker.shop import Processes, session_of

from leasehold.model.job import JobId
from leasehold.model.status import AttemptStatus, Status

# ---------------------------------------------------------------------------------------------------------- a job


async def test_a_handler_runs_in_another_process(isolated: Isolated) -> None:
    async with isolated.working() as (_, pool):
        result = (await isolated.shop.ended(await isolated.enqueue("tell", number=5))).result
        assert result["number"] == 5
        assert [result["pid"]] == pool.pids
        assert result["pid"] != os.getpid()


async def test_a_coroutine_runs_in_another_process(isolated: Isolated) -> None:
    async with isolated.working() as (_, pool):
        job = await isolated.enqueue("atell")
        assert [(await isolated.shop.ended(job)).result] == pool.pids
    assert [line.text for line in await isolated.shop.jobs.lines(job, 1)] == ["from a coroutine"]


async def test_a_job_in_a_process_knows_its_facts(isolated: Isolated) -> None:
    async with isolated.working():
        job = await isolated.shop.enqueue("tell", payload={}, correlation_id="order-9")
        record = await isolated.shop.ended(job)
    assert record.result["facts"] == [job, "acme", "tell", 1, 1, 5, "order-9"]
    assert record.result["at"] == str(record.queued_at)


async def test_lines_and_progress_of_a_process_are_stored(isolated: Isolated) -> None:
    async with isolated.working():
        job = await isolated.enqueue("tell")
        await isolated.shop.ended(job)
    lines = await isolated.shop.jobs.lines(job, 1)
    assert [(line.text, line.progress) for line in lines] == [("for acme", None), ("half", 0.5)]


async def test_each_process_opens_the_lifespan_of_the_app(isolated: Isolated) -> None:
    async with isolated.working():
        result = (await isolated.shop.ended(await isolated.enqueue("tell"))).result
    assert result["state"] == result["pid"]


async def test_a_handler_in_a_process_may_enqueue_more(isolated: Isolated) -> None:
    async with isolated.working():
        first = await isolated.shop.ended(await isolated.enqueue("follow"))
        second = await isolated.shop.ended(JobId(first.result))
    assert second.result["number"] == 7


ENDS = {
    "Fail": (Status.FAILED, "Fail", "no such order"),
    "an error": (Status.DEAD_LETTER, "ValueError", "broken ? on purpose"),
    "SystemExit": (Status.DEAD_LETTER, "SystemExit", "3"),
    "a result that is not JSON": (Status.FAILED, "result_invalid", "object"),
    "a transaction": (Status.DEAD_LETTER, "InvalidInput", 'this handler has isolation="process"'),
}


@pytest.mark.parametrize(("how", "status", "code", "error"), [(how, *end) for how, end in ENDS.items()], ids=ENDS)
async def test_a_handler_in_a_process_ends_as_elsewhere(
    isolated: Isolated, how: str, status: Status, code: str, error: str
) -> None:
    async with isolated.working():
        record = await isolated.shop.ended(await isolated.enqueue("end_by", how=how))
    assert (record.status, record.last_error_code) == (status, code)
    assert error in (record.last_error or "")


async def test_a_snooze_and_a_retry_keep_their_delay(isolated: Isolated) -> None:
    async with isolated.working():
        snoozed = await isolated.shop.enqueue("end_by", payload={"how": "Snooze"})
        retried = await isolated.shop.enqueue("end_by", payload={"how": "RetryLater"}, max_attempts=2)
        for job in (snoozed, retried):
            record = await isolated.shop.waits_again(job)
            assert timedelta(minutes=59) < record.scheduled_for - record.queued_at < 2 * HOUR
    assert (await isolated.shop.job(snoozed)).tries == 0


async def test_the_place_of_an_error_in_a_process_is_kept(isolated: Isolated) -> None:
    async with isolated.working():
        job = await isolated.enqueue("end_by", how="an error")
        await isolated.shop.ended(job)
    (attempt,) = await isolated.shop.jobs.attempts(job)
    assert "isolated_app.py" in str(attempt.details)
    assert "in end_by" in str(attempt.details)


# --------------------------------------------------------------------------------------------------------- stopped


async def test_a_timeout_ends_the_process_of_a_plain_function(isolated: Isolated) -> None:
    async with isolated.working() as (_, pool):
        job, pid = await isolated.begin("take_too_long")
        assert (await isolated.shop.ended(job)).last_error_code == "timeout"
        assert not is_alive(pid)
        assert pool.pids == []
    (attempt,) = await isolated.shop.jobs.attempts(job)
    assert attempt.status is AttemptStatus.TIMEOUT
    assert "in take_too_long" in str(attempt.details)


async def test_a_timeout_lets_a_coroutine_in_a_process_clean_up(isolated: Isolated) -> None:
    async with isolated.working():
        job, pid = await isolated.begin("atake_too_long")
        assert (await isolated.shop.ended(job)).last_error_code == "timeout"
        assert await isolated.written("cleaned up") == pid
        assert not is_alive(pid)


async def test_a_timeout_ends_what_the_handler_has_started(isolated: Isolated) -> None:
    async with isolated.working():
        job = await isolated.enqueue("leave_a_child", folder=str(isolated.folder))
        child = await isolated.written("child")
        assert is_alive(child)
        await isolated.shop.ended(job)
        await until_ended(child)


@pytest.mark.parametrize("definition", ["hang", "swallow_cancel", "hold_the_interpreter"])
async def test_a_cancel_ends_the_process(isolated: Isolated, definition: str) -> None:
    async with isolated.working():
        job, pid = await isolated.begin(definition)
        await isolated.shop.jobs.cancel([job])
        assert (await isolated.shop.ended(job)).status is Status.CANCELED
        assert not is_alive(pid)


async def test_a_canceled_handler_in_a_process_may_end_in_its_own_way(isolated: Isolated) -> None:
    async with isolated.working():
        job, pid = await isolated.begin("end_when_canceled")
        await isolated.shop.jobs.cancel([job])
        record = await isolated.shop.ended(job)
        await until_ended(pid)
    assert (record.status, record.result) == (Status.SUCCEEDED, "half of it")


async def test_a_lost_lease_ends_the_process(isolated: Isolated) -> None:
    async with isolated.working() as (worker, _):
        _, pid = await isolated.begin("hang")
        ledger = session_of(worker).ledger
        (claim,) = ledger.attempts
        ledger.lose(claim)
        await until_ended(pid)


async def test_a_worker_that_stops_ends_the_process_and_gives_the_job_back(isolated: Isolated) -> None:
    async with isolated.working():
        job, pid = await isolated.begin("hang")
    record = await isolated.shop.job(job)
    assert (record.status, record.tries) == (Status.QUEUED, 0)
    assert not is_alive(pid)


async def test_a_signal_from_elsewhere_does_not_stop_the_handler(isolated: Isolated) -> None:
    """Systemd sends SIGTERM to all processes of a service when its worker may still let jobs end."""
    async with isolated.working():
        job, pid = await isolated.begin("wait_for_go")
        os.kill(pid, signal.SIGTERM)
        (isolated.folder / "go").touch()
        record = await isolated.shop.ended(job)
    assert (record.status, record.result) == (Status.SUCCEEDED, pid)


# --------------------------------------------------------------------------------------------------------- crashes

CRASHES = {
    "exit code 3": "ended with exit code 3",
    "SIGSEGV": "ended by SIGSEGV, as after a crash of the interpreter",
    "SIGKILL": "was killed by SIGKILL, not by its worker; possibly the system ran out of memory",
}


@pytest.mark.parametrize(("how", "error"), CRASHES.items(), ids=CRASHES)
async def test_a_crash_is_a_failed_attempt_and_not_a_dead_worker(isolated: Isolated, how: str, error: str) -> None:
    async with isolated.working():
        crashed = await isolated.shop.ended(await isolated.enqueue("crash", how=how))
        assert (await isolated.shop.ended(await isolated.enqueue("tell"))).status is Status.SUCCEEDED
    assert (crashed.status, crashed.last_error_code) == (Status.DEAD_LETTER, "process_crashed")
    assert error in (crashed.last_error or "")


async def test_a_handler_may_not_allocate_more_than_its_memory(isolated: Isolated) -> None:
    async with isolated.working():
        fits = await isolated.shop.ended(await isolated.enqueue("allocate", megabytes=16))
        too_large = await isolated.shop.ended(await isolated.enqueue("allocate", megabytes=256))
        again = await isolated.shop.ended(await isolated.enqueue("allocate", megabytes=16))
    assert (too_large.status, too_large.last_error_code) == (Status.DEAD_LETTER, "MemoryError")
    assert again.status is Status.SUCCEEDED
    assert again.result != fits.result, "a process that ran out of memory is replaced"


# ------------------------------------------------------------------------------------------------------------ pool


async def test_no_process_is_started_before_it_is_needed(isolated: Isolated) -> None:
    async with isolated.working() as (worker, pool):
        await isolated.shop.at_rest(worker)
        assert pool.pids == []


async def test_one_process_runs_one_job_after_the_other(isolated: Isolated) -> None:
    async with isolated.working():
        pids = {(await isolated.shop.ended(await isolated.enqueue("tell"))).result["pid"] for _ in range(3)}
    assert len(pids) == 1


async def test_jobs_at_the_same_time_have_processes_of_their_own(isolated: Isolated) -> None:
    async with isolated.working() as (_, pool):
        waits, pid = await isolated.begin("wait_for_go")
        told = (await isolated.shop.ended(await isolated.enqueue("tell"))).result
        (isolated.folder / "go").touch()
        await isolated.shop.ended(waits)
        assert set(pool.pids) == {pid, told["pid"]}


async def test_a_worker_process_runs_handlers_in_processes(isolated: Isolated, processes: Processes) -> None:
    worker = processes.worker(handlers=APP)
    await worker.says("slots for")
    result = (await isolated.shop.ended(await isolated.enqueue("tell"))).result
    assert result["pid"] != worker.pid
    worker.send(signal.SIGTERM)
    assert await worker.code() == 0
    assert not is_alive(result["pid"])
