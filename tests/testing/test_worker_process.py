"""A worker in a process of its own, killed, paused and waited for."""

import os

import pytest
from tests.testing import shop
from tests.testing.shop import app, close_month, hold_on, sync_folder

from leasehold import InvalidInput, Leasehold
from leasehold.testing import QueueTester, WorkerProcess
from leasehold.testing.process import target_of

acme = app.tenant("acme")


def test_a_worker_process_runs_what_is_enqueued(leasehold: QueueTester, leasehold_worker: WorkerProcess) -> None:
    assert leasehold_worker.pid != os.getpid()
    placed = acme.enqueue(sync_folder, provider_id="p_9")
    assert leasehold.wait_for(placed).result == "acme:p_9:/"
    assert leasehold_worker.wait_for_event("job.ended", placed.id)["attempt_status"] == "succeeded"


async def test_an_async_test_waits_for_it_by_awaiting(
    leasehold: QueueTester, leasehold_worker: WorkerProcess
) -> None:
    placed = await acme.aenqueue(close_month, [1])
    assert (await leasehold.await_for(placed)).status == "succeeded"


def test_what_a_killed_worker_ran_is_given_to_another(
    leasehold: QueueTester, leasehold_worker: WorkerProcess
) -> None:
    placed = acme.enqueue(hold_on)
    leasehold_worker.wait_for_event("job.started", placed.id)
    leasehold_worker.kill()
    assert leasehold.job(placed).status == "running"
    leasehold.clock.advance("2m")
    assert leasehold.drain(advance=True) == 1
    assert [attempt.status for attempt in leasehold.attempts(placed)] == ["crashed", "succeeded"]


def test_a_paused_worker_does_nothing_until_it_is_resumed(
    leasehold: QueueTester, leasehold_worker: WorkerProcess
) -> None:
    leasehold_worker.pause()
    placed = acme.enqueue(sync_folder, provider_id="p_9")
    with pytest.raises(AssertionError, match=r"has not ended within 0\.2s; it is ready"):
        leasehold.wait_for(placed, within="0.2s")
    leasehold_worker.resume()
    assert leasehold.wait_for(placed).status == "succeeded"


def test_a_stopped_worker_gives_its_jobs_back_and_restarts(leasehold: QueueTester) -> None:
    with leasehold.worker(slots=1, grace="0s") as worker:
        first = worker.pid
        placed = acme.enqueue(hold_on)
        worker.wait_for_event("job.started", placed.id)
        assert worker.stop() == 0
        assert leasehold.job(placed).display == "retrying" or leasehold.job(placed).status == "queued"
        with pytest.raises(InvalidInput, match="the worker does not run"):
            worker.kill()
        worker.start()
        assert worker.pid != first
        assert leasehold.wait_for(placed).attempt == 2
        with pytest.raises(InvalidInput, match="runs already"):
            worker.start()


def test_a_worker_that_cant_start_says_why(leasehold: QueueTester) -> None:
    broken = QueueTester(app, leasehold.url, target="tests.testing.nowhere:app")
    with pytest.raises(AssertionError, match=r"LH-5001: tests\.testing\.nowhere"), broken.worker():
        pass
    broken.close()


def test_an_app_is_found_by_the_module_that_holds_it() -> None:
    assert target_of(shop.app) == "tests.testing.shop:app"
    with pytest.raises(InvalidInput, match="no module holds the app"):
        target_of(Leasehold())
