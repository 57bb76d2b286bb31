"""Plain calls, inline, drained with a moved clock, and with injected failures."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime, timedelta

import pytest
from tests.testing import shop
from tests.testing.shop import (
    app,
    close_month,
    close_year,
    convert,
    enter_in_the_books,
    give_an_object,
    refuse,
    send_invoice,
    sync_folder,
    tell_process,
    wait_for_the_carrier,
)

from leasehold import Fail, InvalidInput, Job, Leasehold, PayloadInvalid, Snooze, Status
from leasehold.errors import BlockingCall, UnknownDefinition
from leasehold.model.limits import Limits, Pause, Scope, ScopeKind
from leasehold.store import Store
from leasehold.testing import QueueTester

acme = app.tenant("acme")


# --------------------------------------------------------------------------------------------------------------- call


def test_a_call_goes_through_json_both_ways_and_no_queue(leasehold: QueueTester) -> None:
    assert leasehold.call("acme", sync_folder, provider_id="p_9") == "acme:p_9:/"
    assert leasehold.call("acme", send_invoice, 7, due=date(2026, 11, 16)) == "2026-11-16"
    leasehold.assert_none()


def test_a_call_raises_the_error_of_the_handler_or_the_refusal(leasehold: QueueTester) -> None:
    with pytest.raises(Fail, match="no such order"):
        leasehold.call("acme", refuse)
    with pytest.raises(Snooze):
        leasehold.call("acme", wait_for_the_carrier)
    with pytest.raises(PayloadInvalid, match="provider_id: missing"):
        leasehold.call("acme", sync_folder)  # type: ignore[call-arg]
    with pytest.raises(PayloadInvalid, match="object is not JSON"):
        leasehold.call("acme", give_an_object)


async def test_on_a_loop_a_call_is_awaited(leasehold: QueueTester) -> None:
    assert await leasehold.acall("acme", send_invoice, 7) is None
    assert await leasehold.acall("acme", sync_folder, "p_9") == "acme:p_9:/"
    assert leasehold.call("acme", sync_folder, "p_9") == "acme:p_9:/"
    with pytest.raises(BlockingCall, match=r"await leasehold.acall\(…\)"):
        leasehold.call("acme", send_invoice, 7)


def test_a_call_has_no_transaction_to_finish_in(leasehold: QueueTester) -> None:
    with pytest.raises(InvalidInput, match="this job is run by no worker"):
        leasehold.call("acme", enter_in_the_books)


# ------------------------------------------------------------------------------------------------------------- inline


def test_inline_an_enqueue_returns_when_its_job_has_run(leasehold: QueueTester) -> None:
    with leasehold.inline():
        placed = acme.enqueue(sync_folder, provider_id="p_9")
        job = leasehold.job(placed)
        assert (job.status, job.result, job.attempt) == (Status.SUCCEEDED, "acme:p_9:/", 1)
    acme.enqueue(sync_folder, provider_id="p_9")
    assert leasehold.job().status == "queued"


def test_inline_what_a_job_enqueues_has_run_as_well(leasehold: QueueTester) -> None:
    with leasehold.inline():
        acme.enqueue(close_year)
    assert [(job.definition, job.status) for job in leasehold.jobs()] == [
        ("close_year", "succeeded"),
        ("close_month", "succeeded"),
        ("send_invoice", "succeeded"),
        ("send_invoice", "succeeded"),
    ]


async def test_inline_works_for_what_is_awaited(leasehold: QueueTester) -> None:
    with leasehold.inline():
        await acme.aenqueue(close_month, [1, 2])
        assert {job.status for job in leasehold.jobs()} == {"succeeded"}
        async with app.open():
            await acme.aenqueue(close_year)
    assert [job.status for job in leasehold.jobs()] == ["succeeded"] * 7


def test_inline_errors_surface_and_are_recorded(leasehold: QueueTester) -> None:
    leasehold.fail(send_invoice, TimeoutError("the mail server sleeps"))
    with leasehold.inline(), pytest.raises(TimeoutError, match="the mail server sleeps"):
        acme.enqueue(send_invoice, 7)
    job = leasehold.job()
    assert (job.display, job.attempt, job.last_error_code) == ("retrying", 1, "TimeoutError")
    with leasehold.inline(), pytest.raises(Fail):
        acme.enqueue(refuse)
    assert leasehold.job().status == "failed"


def test_inline_many_run_and_what_is_not_due_waits(leasehold: QueueTester) -> None:
    with leasehold.inline():
        acme.options(delay="5m").enqueue(send_invoice, 0)
        acme.enqueue_many(send_invoice.bind(number) for number in (1, 2))
        acme.enqueue(wait_for_the_carrier)
    assert [job.display for job in leasehold.jobs()] == ["scheduled", "succeeded", "succeeded", "retrying"]


async def test_inline_many_that_are_awaited_have_run_too(leasehold: QueueTester) -> None:
    with leasehold.inline():
        await acme.aenqueue_many([send_invoice.bind(1), close_month.bind([2, 3])])
        assert {job.status for job in leasehold.jobs()} == {"succeeded"}
        async with app.open():
            await acme.aenqueue_many((send_invoice.bind(number) for number in (4, 5)), chunk=1, atomic=False)
    assert [job.status for job in leasehold.jobs()] == ["succeeded"] * 6
    await acme.aenqueue_many([send_invoice.bind(6)])
    assert leasehold.job().status == "queued"


def test_inline_many_of_another_app_only_wait(leasehold: QueueTester) -> None:
    other = Leasehold(leasehold.url)

    @other.job
    def of_another_app(job: Job) -> None: ...

    with leasehold.inline():
        other.tenant("acme").enqueue_many([of_another_app.bind()])
    other.close()
    assert leasehold.job().status == "queued"


@pytest.mark.leasehold_inline
def test_a_marked_test_is_inline_as_a_whole(leasehold: QueueTester) -> None:
    acme.enqueue(sync_folder, provider_id="p_9")
    assert leasehold.job().status == "succeeded"


# -------------------------------------------------------------------------------------------------------------- drain


def test_a_drain_runs_what_is_due_and_what_that_enqueues(leasehold: QueueTester) -> None:
    acme.enqueue(close_year)
    app.tenant("globex").enqueue(sync_folder, provider_id="p_9")
    acme.options(delay="1h").enqueue(sync_folder, provider_id="p_8")
    assert leasehold.drain() == 5
    assert [job.status for job in leasehold.jobs()] == ["succeeded", "succeeded", "queued", *["succeeded"] * 3]
    assert leasehold.drain() == 0


def test_a_drain_that_advances_goes_over_delays_and_backoffs(leasehold: QueueTester) -> None:
    leasehold.fail(send_invoice, TimeoutError("x"), times=3)
    began = leasehold.clock.now()
    acme.options(delay="1d").enqueue(send_invoice, 7)
    assert leasehold.drain(advance=True) == 3
    job = leasehold.job()
    assert (job.status, job.attempt) == ("dead_letter", 3)
    assert [(each.number, each.status, each.error) for each in leasehold.attempts()] == [
        (1, "failed", "x"),
        (2, "failed", "x"),
        (3, "failed", "x"),
    ]
    assert leasehold.clock.now() - began >= timedelta(days=1, seconds=60 + 3600)


async def test_on_a_loop_a_drain_is_awaited(leasehold: QueueTester) -> None:
    await acme.aenqueue(close_month, [1, 2])
    with pytest.raises(BlockingCall, match=r"await leasehold.adrain\(…\)"):
        leasehold.drain()
    async with app.open():
        assert await leasehold.adrain() == 3
        await acme.aenqueue(send_invoice, 3)
    assert await leasehold.adrain(advance=True) == 1


def on_the_store(change: Callable[[Store], Awaitable[None]]) -> None:
    async def open_and_change() -> None:
        async with app.open():
            await change(app.store)

    asyncio.run(open_and_change())


def test_a_drain_ends_though_something_is_held_back(leasehold: QueueTester) -> None:
    acme.enqueue(sync_folder, provider_id="p_9")
    app.tenant("globex").enqueue(sync_folder, provider_id="p_9")
    on_the_store(lambda store: store.pause(Scope(ScopeKind.TENANT, "acme"), Pause("moving")))
    assert leasehold.drain(advance=True) == 1
    assert [job.status for job in leasehold.jobs()] == ["queued", "succeeded"]


def test_a_drain_that_would_go_on_for_ever_is_stopped(leasehold: QueueTester) -> None:
    acme.enqueue(wait_for_the_carrier)
    with pytest.raises(AssertionError, match=r"stopped after 20 runs: does a job enqueue itself, or snooze"):
        leasehold.drain(advance=True, max_jobs=20)


def test_with_more_slots_jobs_run_side_by_side(leasehold: QueueTester) -> None:
    acme.enqueue_many(send_invoice.bind(number) for number in range(100))
    on_the_store(lambda store: store.limit(Scope(ScopeKind.TENANT, "acme"), Limits(max_running=2)))
    assert leasehold.drain(slots=10) == 100


# --------------------------------------------------------------------------------------------------------- the clock


def test_the_clock_decides_what_is_due(leasehold: QueueTester) -> None:
    acme.options(delay="1h").enqueue(sync_folder, provider_id="p_9")
    leasehold.clock.advance("59m")
    assert (leasehold.drain(), leasehold.job().display) == (0, "scheduled")
    leasehold.clock.advance(timedelta(minutes=2))
    assert (leasehold.drain(), leasehold.job().display) == (1, "succeeded")


def test_a_frozen_clock_stands_still_until_it_is_moved(leasehold: QueueTester) -> None:
    moment = leasehold.freeze("2027-03-13T12:00Z")
    assert moment == datetime(2027, 3, 13, 12, tzinfo=UTC)
    acme.options(at=datetime(2027, 3, 13, 13, tzinfo=UTC)).enqueue(send_invoice, 7)
    assert leasehold.job().queued_at == leasehold.clock.now() == moment
    assert leasehold.drain() == 0
    leasehold.clock.advance("1h")
    assert leasehold.drain() == 1
    assert leasehold.job().finished_at == moment + timedelta(hours=1)
    leasehold.clock.release()
    assert leasehold.clock.now() < moment


def test_a_clock_refuses_what_is_no_moment_and_never_goes_back(leasehold: QueueTester) -> None:
    with pytest.raises(InvalidInput, match="is not a moment"):
        leasehold.freeze("noon")
    with pytest.raises(InvalidInput, match="has no timezone"):
        leasehold.freeze("2027-03-13T12:00")
    with pytest.raises(InvalidInput, match="can't go back by 1:00:00"):
        leasehold.clock.advance(-timedelta(hours=1))


# ---------------------------------------------------------------------------------------------------------- failures


def test_injected_failures_come_first_and_then_the_handler_runs(leasehold: QueueTester) -> None:
    leasehold.fail(send_invoice, TimeoutError("first"))
    leasehold.fail("send_invoice", ConnectionError)
    acme.enqueue(send_invoice, 7)
    assert leasehold.drain(advance=True) == 3
    assert [each.error_code for each in leasehold.attempts()] == ["TimeoutError", "ConnectionError", None]
    assert leasehold.job().status == "succeeded"


def test_an_injected_failure_ends_with_its_test(leasehold: QueueTester) -> None:
    """The one before, or after, has left nothing behind."""
    handler = app.handlers["send_invoice"]
    leasehold.fail(send_invoice, TimeoutError("never raised"))
    leasehold.close()
    assert app.handlers["send_invoice"] is handler
    acme.enqueue(send_invoice, 7)
    leasehold.drain()
    assert leasehold.job().status == "succeeded"


def test_failures_of_what_is_unknown_or_of_no_number_are_refused(leasehold: QueueTester) -> None:
    with pytest.raises(UnknownDefinition, match="send_invoice"):
        leasehold.fail("send_invoce", TimeoutError("x"))
    with pytest.raises(InvalidInput, match="times=0"):
        leasehold.fail(send_invoice, TimeoutError("x"), times=0)


# ---------------------------------------------------------------------------------------------------------- isolation


def test_a_drain_runs_isolated_handlers_in_the_process_of_the_test(
    leasehold: QueueTester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shop, "RATE", 3)
    placed = acme.enqueue(convert, 5)
    leasehold.drain()
    assert leasehold.job(placed).result == 15
    assert leasehold.call("acme", convert, 5) == 15


def test_a_worker_process_runs_isolated_handlers_for_real(leasehold: QueueTester) -> None:
    with leasehold.worker() as worker:
        placed = acme.enqueue(tell_process)
        assert leasehold.wait_for(placed).result != worker.pid
