"""Handlers: everything that they may do, and how their jobs end."""

import asyncio
import logging
import threading
from collections import Counter
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any, NoReturn

import pytest
from tests.conftest import PATIENCE, Clock, eventually
from tests.worker.shop import HOUR, Shop, Verb, only, session_of

from leasehold.errors import InvalidInput
from leasehold.model.backoff import Steps
from leasehold.model.definition import Definition
from leasehold.model.job import Claim, LineKind, NewJob
from leasehold.model.status import AttemptStatus, Status
from leasehold.worker import Fail, Handlers, Job, RetryLater, Snooze
from leasehold.worker.claims import ClaimState

Payload = dict[str, Any]
AT_ONCE = Steps(0)
QUICKLY = timedelta(milliseconds=100)
# Where one attempt hangs and the next does not, but has to get a thread first.
PATIENTLY = timedelta(seconds=3)
FAILED, TIMEOUT, SNOOZED = AttemptStatus.FAILED, AttemptStatus.TIMEOUT, AttemptStatus.SNOOZED
SUCCEEDED, CANCELED = AttemptStatus.SUCCEEDED, AttemptStatus.CANCELED


async def for_ever() -> NoReturn:
    await asyncio.Event().wait()
    raise AssertionError


def wait_for(event: threading.Event) -> None:
    assert event.wait(3 * PATIENCE.total_seconds()), "the test never let its handler go on"


# Where they run


async def test_an_async_handler_runs_on_the_loop(shop: Shop) -> None:
    loop = asyncio.get_running_loop()

    async def report(job: Job, payload: Payload) -> bool:
        return asyncio.get_running_loop() is loop

    async with shop.working(only(report)):
        assert (await shop.ended(await shop.enqueue())).result is True


async def test_context_variables_do_not_pass_from_job_to_job(shop: Shop) -> None:
    who: ContextVar[str] = ContextVar("who")
    begun: list[str] = []

    async def report(job: Job, payload: Payload) -> str:
        begun.append(job.id)
        before = who.get("nobody")
        who.set(job.id)
        if len(begun) == 1:
            await eventually(somebody_stands_in_line, what="a job that waits for this one's slot")
        return before

    async with shop.working(only(report), slots=1) as worker:
        session = session_of(worker)
        for _ in range(100):  # of short jobs more are claimed than there are slots
            session.starter.budget.note_time(0.0)

        async def somebody_stands_in_line() -> bool:
            return ClaimState.STARTING in worker.state().claims.values()

        jobs = await shop.door.enqueue([NewJob(definition="report")] * 2)
        assert [(await shop.ended(job.id)).result for job in jobs] == ["nobody", "nobody"]


async def test_a_sync_handler_runs_in_a_thread(shop: Shop) -> None:
    def report(job: Job, payload: Payload) -> str:
        return threading.current_thread().name

    async with shop.working(only(report)):
        assert (await shop.ended(await shop.enqueue())).result.startswith("leasehold-handler")


async def test_a_sync_handler_does_not_keep_others_from_running(shop: Shop) -> None:
    handlers, go_on = Handlers(), threading.Event()

    @handlers.add(Definition("slow"))
    def slow(job: Job, payload: Payload) -> None:
        wait_for(go_on)

    @handlers.add(Definition("quick"))
    async def quick(job: Job, payload: Payload) -> None: ...

    async with shop.working(handlers):
        held = await shop.enqueue("slow")
        await shop.ended(await shop.enqueue("quick"))
        assert (await shop.job(held)).status is Status.RUNNING
        go_on.set()
        assert (await shop.ended(held)).status is Status.SUCCEEDED


async def test_a_handler_gets_its_payload_and_knows_its_job(shop: Shop) -> None:
    async def report(job: Job, payload: Payload) -> list[Any]:
        return [payload, job.id, job.tenant, job.definition, job.attempt, job.tries, job.max_attempts]

    async with shop.working(only(report, max_attempts=7)):
        job = await shop.enqueue(payload={"customer": 42})
        assert (await shop.ended(job)).result == [{"customer": 42}, job, "acme", "report", 1, 1, 7]


# Timeouts


async def test_a_handler_that_takes_too_long_is_stopped_and_retried(shop: Shop) -> None:
    async def report(job: Job, payload: Payload) -> None:
        if job.attempt == 1:
            await for_ever()

    async with shop.working(only(report, timeout=QUICKLY, backoff=AT_ONCE)):
        job = await shop.enqueue()
        assert (await shop.ended(job)).status is Status.SUCCEEDED
    assert await shop.history(job) == [TIMEOUT, SUCCEEDED]
    assert "longer than its timeout of 0.1 s" in ((await shop.door.attempts(job))[0].error or "")


async def test_a_handler_that_cleans_up_after_a_timeout_has_timed_out(shop: Shop) -> None:
    async def report(job: Job, payload: Payload) -> None:
        try:
            await for_ever()
        except asyncio.CancelledError as stop:
            raise ValueError("the connection was not closed") from stop

    async with shop.working(only(report, timeout=QUICKLY, max_attempts=1)):
        job = await shop.enqueue()
        assert (await shop.ended(job)).last_error_code == "timeout"
    assert await shop.history(job) == [TIMEOUT]


async def test_a_sync_handler_that_takes_too_long_is_told_and_retried(shop: Shop) -> None:
    told = threading.Event()

    def report(job: Job, payload: Payload) -> None:
        if job.attempt > 1:
            return
        deadline = monotonic() + PATIENCE.total_seconds()
        while not job.canceled and monotonic() < deadline:
            threading.Event().wait(0.005)
        if job.canceled:
            told.set()

    async with shop.working(only(report, timeout=PATIENTLY, backoff=AT_ONCE)):
        job = await shop.enqueue()
        assert (await shop.ended(job)).status is Status.SUCCEEDED
        assert await shop.history(job) == [TIMEOUT, SUCCEEDED]
        assert await asyncio.to_thread(told.wait, PATIENCE.total_seconds())


async def test_threads_that_never_come_back_take_no_slot_with_them(shop: Shop) -> None:
    handlers, let_go = Handlers(), threading.Event()

    @handlers.add(Definition("stuck", timeout=QUICKLY, max_attempts=1))
    def stuck(job: Job, payload: Payload) -> None:
        wait_for(let_go)

    @handlers.add(Definition("other"))
    def other(job: Job, payload: Payload) -> None: ...

    try:
        async with shop.working(handlers, slots=2):
            for record in await shop.all_ended(await shop.enqueue_many(2, "stuck")):
                assert record.last_error_code == "timeout"
            assert (await shop.ended(await shop.enqueue("other"))).status is Status.SUCCEEDED
    finally:
        let_go.set()


# Cancel


async def test_a_cancel_stops_an_async_handler_of_a_busy_worker(shop: Shop) -> None:
    """Every slot is taken, and the next heartbeat is 20 s away: the wake brings it."""
    began, stopped = asyncio.Event(), asyncio.Event()

    async def report(job: Job, payload: Payload) -> None:
        began.set()
        try:
            await for_ever()
        finally:
            stopped.set()

    async with shop.working(only(report), slots=1):
        job = await shop.enqueue()
        await asyncio.wait_for(began.wait(), PATIENCE.total_seconds())
        await shop.door.cancel([job])
        assert (await shop.ended(job)).status is Status.CANCELED
    assert stopped.is_set()
    assert await shop.history(job) == [CANCELED]


async def test_a_sync_handler_that_is_canceled_may_end_in_its_own_way(shop: Shop) -> None:
    began = threading.Event()

    def report(job: Job, payload: Payload) -> str:
        began.set()
        deadline = monotonic() + PATIENCE.total_seconds()
        while not job.canceled and monotonic() < deadline:
            threading.Event().wait(0.005)
        return "half of it"

    async with shop.working(only(report), slots=1):
        job = await shop.enqueue()
        await asyncio.to_thread(wait_for, began)
        await shop.door.cancel([job])
        record = await shop.ended(job)
    assert (record.status, record.result) == (Status.SUCCEEDED, "half of it")


async def test_a_sync_handler_that_raises_when_canceled_is_canceled(shop: Shop) -> None:
    began = threading.Event()

    def report(job: Job, payload: Payload) -> None:
        began.set()
        deadline = monotonic() + PATIENCE.total_seconds()
        while not job.canceled and monotonic() < deadline:
            threading.Event().wait(0.005)
        raise InterruptedError("told to stop")

    async with shop.working(only(report, backoff=AT_ONCE), slots=1):
        job = await shop.enqueue()
        await asyncio.to_thread(wait_for, began)
        await shop.door.cancel([job])
        assert (await shop.ended(job)).status is Status.CANCELED


async def test_a_canceled_thread_is_abandoned_when_the_worker_stops(shop: Shop) -> None:
    """Its worker leaves its registration behind in good order all the same."""
    began, told, let_go = threading.Event(), threading.Event(), threading.Event()

    def report(job: Job, payload: Payload) -> None:
        began.set()
        while not let_go.wait(0.005):
            if job.canceled:
                told.set()

    try:
        async with shop.working(only(report)):
            job = await shop.enqueue()
            await asyncio.to_thread(wait_for, began)
            await shop.door.cancel([job])
            await asyncio.to_thread(wait_for, told)
        assert (await shop.job(job)).status is Status.CANCELED
        assert await shop.store.workers() == []
    finally:
        let_go.set()


# Snooze, RetryLater, Fail


async def test_a_snooze_costs_no_attempt(shop: Shop) -> None:
    async def report(job: Job, payload: Payload) -> list[int]:
        if job.attempt < 3:
            raise Snooze("0s")
        return [job.attempt, job.tries]

    async with shop.working(only(report, max_attempts=1)):
        job = await shop.enqueue()
        assert (await shop.ended(job)).result == [3, 1]
    assert await shop.history(job) == [SNOOZED, SNOOZED, SUCCEEDED]


async def test_a_snoozed_job_waits_for_as_long_as_it_said(shop: Shop) -> None:
    async def report(job: Job, payload: Payload) -> None:
        raise Snooze(HOUR)

    async with shop.working(only(report)):
        record = await shop.waits_again(await shop.enqueue())
    assert record.started_at is not None
    assert HOUR <= record.scheduled_for - record.started_at < 2 * HOUR


async def test_a_handler_may_choose_when_it_is_retried(shop: Shop) -> None:
    async def report(job: Job, payload: Payload) -> None:
        raise RetryLater(HOUR, "the printer is warming up")

    async with shop.working(only(report, backoff=AT_ONCE)):
        record = await shop.waits_again(await shop.enqueue())
    assert record.started_at is not None
    assert HOUR <= record.scheduled_for - record.started_at < 2 * HOUR
    assert record.last_error == "the printer is warming up"
    assert await shop.history(record.id) == [FAILED]


async def test_a_retry_of_its_own_choice_costs_an_attempt(shop: Shop) -> None:
    async def report(job: Job, payload: Payload) -> None:
        raise RetryLater(timedelta())

    async with shop.working(only(report, max_attempts=2)):
        job = await shop.enqueue()
        assert (await shop.ended(job)).status is Status.DEAD_LETTER
    assert await shop.history(job) == [FAILED, FAILED]


async def test_a_handler_that_says_fail_is_not_retried(shop: Shop) -> None:
    async def report(job: Job, payload: Payload) -> None:
        raise Fail("the customer is gone")

    async with shop.working(only(report, backoff=AT_ONCE)):
        job = await shop.enqueue()
        record = await shop.ended(job)
    assert (record.status, record.last_error) == (Status.FAILED, "the customer is gone")
    assert await shop.history(job) == [FAILED]


@pytest.mark.parametrize("ask", [Snooze, RetryLater])
async def test_a_delay_that_is_not_a_duration_fails_that_job_alone(
    shop: Shop, ask: type[Snooze | RetryLater]
) -> None:
    """It must not reach the finisher, which writes the results of all others too."""
    handlers = Handlers()

    @handlers.add(Definition("wrong", max_attempts=1))
    async def wrong(job: Job, payload: Payload) -> None:
        raise ask("soon")

    @handlers.add(Definition("right"))
    async def right(job: Job, payload: Payload) -> None: ...

    async with shop.working(handlers):
        record = await shop.ended(await shop.enqueue("wrong"))
        assert (await shop.ended(await shop.enqueue("right"))).status is Status.SUCCEEDED
    assert record.status is Status.DEAD_LETTER
    assert "'soon' is not a duration" in (record.last_error or "")


# Results and errors


@pytest.mark.parametrize("result", [None, 7, "text", [1, {"a": None}], {"rows": 3}, False])
async def test_what_a_handler_returns_is_the_jobs_result(shop: Shop, result: object) -> None:
    async def report(job: Job, payload: Payload) -> object:
        return result

    async with shop.working(only(report)):
        assert (await shop.ended(await shop.enqueue())).result == result


@pytest.mark.parametrize(
    ("result", "message"),
    [(datetime.now(UTC), "result: datetime is not JSON"), ({"mean": float("nan")}, "result.mean: nan is not")],
    ids=["a datetime", "NaN"],
)
async def test_an_unusable_result_fails_the_job_without_a_retry(shop: Shop, result: object, message: str) -> None:
    """A retry would repeat effects that have happened."""

    async def report(job: Job, payload: Payload) -> object:
        return result

    async with shop.working(only(report, backoff=AT_ONCE)):
        job = await shop.enqueue()
        record = await shop.ended(job)
    assert (record.status, record.last_error_code) == (Status.FAILED, "result_invalid")
    assert message in (record.last_error or "")
    assert await shop.history(job) == [FAILED]


async def test_an_exception_is_kept_with_its_attempt(shop: Shop) -> None:
    async def report(job: Job, payload: Payload) -> None:
        if job.attempt == 1:
            raise LookupError("no customer 42")

    async with shop.working(only(report, backoff=AT_ONCE)):
        job = await shop.enqueue()
        assert (await shop.ended(job)).status is Status.SUCCEEDED
    first, second = await shop.door.attempts(job)
    assert (first.status, first.error_code, first.error) == (FAILED, "LookupError", "no customer 42")
    assert (second.status, second.error) == (SUCCEEDED, None)


async def test_a_job_that_fails_every_time_ends_as_a_dead_letter(shop: Shop) -> None:
    async def report(job: Job, payload: Payload) -> None:
        raise LookupError(f"attempt {job.attempt}")

    async with shop.working(only(report, backoff=AT_ONCE, max_attempts=3)):
        job = await shop.enqueue()
        record = await shop.ended(job)
    assert (record.status, record.last_error) == (Status.DEAD_LETTER, "attempt 3")
    assert await shop.history(job) == [FAILED, FAILED, FAILED]


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


class SpokenByExiting(Exception):
    def __str__(self) -> str:
        raise SystemExit("not even this")


class SpokenByInterrupting(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


class OfNoKnownKind(BaseException): ...


ODDITIES = [
    SystemExit(3),
    asyncio.CancelledError("someone else's task was canceled"),
    StopIteration("no first element"),
    GeneratorExit("odd"),
    OfNoKnownKind("odd"),
    Unspeakable(),
    SpokenByExiting(),
    SpokenByInterrupting(),
]


@pytest.mark.parametrize("oddity", ODDITIES, ids=lambda oddity: type(oddity).__name__)
@pytest.mark.parametrize("colour", ["async", "sync"])
async def test_whatever_a_handler_raises_ends_its_attempt_and_nothing_else(
    shop: Shop, oddity: BaseException, colour: str
) -> None:
    async def on_the_loop(job: Job, payload: Payload) -> None:
        if payload.get("odd"):
            raise oddity

    def in_a_thread(job: Job, payload: Payload) -> None:
        if payload.get("odd"):
            raise oddity

    call = on_the_loop if colour == "async" else in_a_thread
    async with shop.working(only(call, max_attempts=1), slots=1):
        odd = await shop.ended(await shop.enqueue(payload={"odd": True}))
        assert (await shop.ended(await shop.enqueue())).status is Status.SUCCEEDED
    assert odd.status is Status.DEAD_LETTER
    # "async def" turns a StopIteration into a RuntimeError; a thread has nothing that would.
    assert odd.last_error_code in (type(oddity).__name__, "RuntimeError")


# Jobs that must not run


async def rewritten(shop: Shop, payload: str) -> None:
    """A payload written by SQL, past our checks."""
    await shop.observer.execute("update leasehold.jobs set payload = $1::jsonb where correlation_id = 'odd'", payload)


@pytest.mark.parametrize(
    ("payload", "message"),
    [('{"customer": "Ada"}', "payload.customer"), ("[]", "payload")],
    ids=["it does not fit", "it is not an object"],
)
async def test_a_payload_that_is_not_valid_fails_its_own_job_without_a_run(
    shop: Shop, payload: str, message: str
) -> None:
    ran: list[Any] = []
    schema = {"type": "object", "properties": {"customer": {"type": "integer"}}, "required": ["customer"]}

    async def report(job: Job, payload: Payload) -> None:
        ran.append(payload["customer"])

    handlers = only(report, schema=schema)
    await shop.store.sync_definitions(handlers.definitions)
    before = await shop.enqueue(payload={"customer": 1})
    odd = await shop.enqueue(payload={"customer": 2}, correlation_id="odd")
    after = await shop.enqueue(payload={"customer": 3})
    await rewritten(shop, payload)
    async with shop.working(handlers):
        records = await shop.all_ended([before, odd, after])
    assert [record.status for record in records] == [Status.SUCCEEDED, Status.FAILED, Status.SUCCEEDED]
    assert records[1].last_error_code == "payload_invalid"
    assert message in (records[1].last_error or "")
    assert sorted(ran) == [1, 3]


async def test_an_unreadable_payload_fails_its_own_job_without_a_run(shop: Shop) -> None:
    """jsonb nests deeper than our parser reads. Such a row is looked at by SQL: our own reader refuses it, too."""
    ran: list[Any] = []

    async def report(job: Job, payload: Payload) -> None:
        ran.append(payload["customer"])

    handlers = only(report)
    await shop.store.sync_definitions(handlers.definitions)
    odd = await shop.enqueue(payload={"customer": 1}, correlation_id="odd")
    after = await shop.enqueue(payload={"customer": 2})
    await rewritten(shop, "[" * 1100 + "]" * 1100)
    async with shop.working(handlers):
        assert (await shop.ended(after)).status is Status.SUCCEEDED

        async def failed() -> bool:
            status = "select status from leasehold.jobs_done where id = $1::uuid"
            return bool(await shop.observer.fetchval(status, odd) == "failed")

        await eventually(failed, what="the end of the job that can't be read")
    (attempt,) = await shop.door.attempts(odd)
    assert (attempt.status, attempt.error_code) == (FAILED, "payload_invalid")
    assert "can't be read" in (attempt.error or "")
    assert ran == [2]


async def test_a_job_whose_deadline_has_passed_fails_without_a_run(shop: Shop, clock: Clock) -> None:
    ran: list[str] = []

    async def report(job: Job, payload: Payload) -> None:
        ran.append(job.id)

    handlers = only(report)
    await shop.store.sync_definitions(handlers.definitions)
    late = await shop.enqueue(deadline=datetime.now(UTC) + HOUR)
    await clock.move(2 * HOUR)
    in_time = await shop.enqueue(deadline=datetime.now(UTC) + 3 * HOUR)
    async with shop.working(handlers):
        records = await shop.all_ended([late, in_time])
    assert [record.status for record in records] == [Status.FAILED, Status.SUCCEEDED]
    assert records[0].last_error_code == "deadline_passed"
    assert ran == [in_time]


# Log lines and progress


async def test_a_job_that_says_nothing_causes_no_write(shop: Shop) -> None:
    async def report(job: Job, payload: Payload) -> None: ...

    shop.doors.count("append_log")
    async with shop.working(only(report)):
        await shop.all_ended(await shop.enqueue_many(20))
    assert shop.doors.calls["append_log"] == 0


async def test_what_is_said_is_written_in_batches_of_about_a_second(shop: Shop) -> None:
    lasted = 0.0

    async def report(job: Job, payload: Payload) -> None:
        nonlocal lasted
        began = monotonic()
        for number in range(300):
            job.log(f"line {number}")
            await asyncio.sleep(0.004)
        lasted = monotonic() - began

    shop.doors.count("append_log")
    async with shop.working(only(report)):
        job = await shop.enqueue()
        await shop.ended(job)
    assert [line.text for line in await shop.lines(job)] == [f"line {number}" for number in range(300)]
    first_and_last = 2
    assert shop.doors.calls["append_log"] <= lasted + first_and_last


async def test_what_many_jobs_say_at_once_is_written_together(shop: Shop) -> None:
    everyone_speaks = asyncio.Barrier(10)

    async def report(job: Job, payload: Payload) -> None:
        job.log("hello")
        await everyone_speaks.wait()

    shop.doors.count("append_log")
    async with shop.working(only(report)):
        jobs = await shop.enqueue_many(10)
        await shop.all_ended(jobs)
        assert [[line.text for line in await shop.lines(job)] for job in jobs] == [["hello"]] * 10
    assert shop.doors.calls["append_log"] < 10


async def test_what_is_said_can_be_read_while_the_job_runs(shop: Shop) -> None:
    go_on = asyncio.Event()

    async def report(job: Job, payload: Payload) -> None:
        job.log("half way")
        job.progress(0.5, "rows")
        await go_on.wait()

    async with shop.working(only(report)):
        job = await shop.enqueue()

        async def readable() -> bool:
            return len(await shop.lines(job)) == 2

        await eventually(readable, what="lines of a running job")
        said, shown = await shop.lines(job)
        assert (await shop.job(job)).status is Status.RUNNING
        go_on.set()
        await shop.ended(job)
    assert (said.kind, said.text) == (LineKind.LOG, "half way")
    assert (shown.kind, shown.text, shown.progress) == (LineKind.PROGRESS, "rows", 0.5)


async def test_a_handler_in_a_thread_can_speak_too(shop: Shop) -> None:
    def report(job: Job, payload: Payload) -> None:
        for number in range(10):
            job.log(str(number))

    async with shop.working(only(report)):
        job = await shop.enqueue()
        await shop.ended(job)
    assert [line.text for line in await shop.lines(job)] == [str(number) for number in range(10)]


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b", "\udfff", "x" * 50_000], ids=repr)
async def test_text_that_can_not_be_stored_is_stored_as_well_as_it_can_be(shop: Shop, text: str) -> None:
    async def report(job: Job, payload: Payload) -> None:
        job.log(text)
        job.progress(float("nan"), text)
        raise Fail(text)

    async with shop.working(only(report)):
        job = await shop.enqueue()
        assert (await shop.ended(job)).status is Status.FAILED
    assert len(await shop.lines(job)) == 2


async def test_what_is_no_text_is_said_as_text(shop: Shop) -> None:
    async def report(job: Job, payload: Payload) -> None:
        job.log(ValueError("no such row"))  # type: ignore[arg-type]

    async with shop.working(only(report)):
        job = await shop.enqueue()
        await shop.ended(job)
    assert [line.text for line in await shop.lines(job)] == ["no such row"]


async def test_who_speaks_after_its_end_is_not_heard(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    kept, claims = list[Job](), list[Claim]()

    async def report(job: Job, payload: Payload) -> None:
        job.log("in time")
        kept.append(job)
        claims.extend(worker.state().claims)

    shop.doors.count("append_log")
    async with shop.working(only(report)) as worker:
        job = await shop.enqueue()
        await shop.ended(job)

        async def done_with() -> bool:
            return not worker.running

        await eventually(done_with, what="the worker's last look at the ended job")
        said = shop.doors.calls["append_log"]
        kept[0].log("too late")
        session = session_of(worker)
        await session.finisher.log_buffer.write(session.calls.store, claims)
    assert shop.doors.calls["append_log"] == said
    assert [line.text for line in await shop.lines(job)] == ["in time"]
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_line_before_return_is_stored_before_the_finish(shop: Shop) -> None:
    """40 of 1,064 last lines were on their way to the buffer when the finish looked into it."""

    async def on_the_loop(job: Job, payload: Payload) -> None:
        job.log("the last line")

    def in_a_thread(job: Job, payload: Payload) -> None:
        job.log("the last line")

    handlers = only(on_the_loop, "async")
    handlers.add(Definition("sync"))(in_a_thread)
    unwritten: list[str] = []

    def watched(finish: Verb) -> Verb:
        async def verb(finishes: Any) -> Any:
            jobs = {str(claim.job) for claim, _ in finishes}
            rows = await shop.observer.fetch("select job_id from leasehold.job_lines where job_id = any($1)", jobs)
            unwritten.extend(jobs - {str(row["job_id"]) for row in rows})
            return await finish(finishes)

        return verb

    shop.doors.step_in("finish", watched)
    await shop.store.sync_definitions(handlers.definitions)
    jobs = [job for key in ("async", "sync") for job in await shop.enqueue_many(100, key)]
    async with shop.working(handlers, slots=50):
        await shop.all_ended(jobs)
    assert unwritten == []
    assert {len(await shop.lines(job)) for job in jobs} == {1}


@pytest.mark.parametrize("colour", ["async", "sync"])
async def test_a_flood_of_lines_is_bounded_and_says_what_it_dropped(shop: Shop, colour: str) -> None:
    """A line each was posted to the loop, however many there were."""
    posted: Counter[int] = Counter()
    loop, flooding = asyncio.get_running_loop(), set[int]()
    post = loop.call_soon_threadsafe

    def counted(*arguments: Any, **named: Any) -> asyncio.Handle:
        posted[threading.get_ident()] += 1
        return post(*arguments, **named)

    def flood(job: Job) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loop, "call_soon_threadsafe", counted)
            flooding.add(threading.get_ident())
            for number in range(50_000):
                job.log(f"line {number}")

    async def on_the_loop(job: Job, payload: Payload) -> None:
        flood(job)

    def in_a_thread(job: Job, payload: Payload) -> None:
        flood(job)

    async with shop.working(only(on_the_loop if colour == "async" else in_a_thread)):
        job = await shop.enqueue()
        await shop.ended(job)
    lines = [row["text"] for row in await shop.observer.fetch("select text from leasehold.job_lines")]
    dropped = [int(text.split()[1].replace(",", "")) for text in lines if "were dropped here" in text]
    assert len(lines) - len(dropped) + sum(dropped) == 50_000
    assert dropped
    assert 1 <= posted[flooding.pop()] <= 100


# The idempotency key


async def test_the_idempotency_key_belongs_to_a_job_not_to_an_attempt(shop: Shop) -> None:
    seen: dict[str, list[str]] = {}

    async def report(job: Job, payload: Payload) -> None:
        seen.setdefault(job.id, []).append(job.idempotency_key)
        if job.attempt < 3:
            raise ValueError("again")

    async with shop.working(only(report, backoff=AT_ONCE)):
        await shop.all_ended(await shop.enqueue_many(5))
    assert [len(keys) for keys in seen.values()] == [3] * 5
    assert len({key for keys in seen.values() for key in keys}) == 5


# Registering


def test_a_second_handler_for_a_key_is_refused() -> None:
    async def report(job: Job, payload: Payload) -> None: ...

    handlers = only(report)
    with pytest.raises(InvalidInput, match="has a handler already"):
        handlers.add(Definition("report"))(report)
