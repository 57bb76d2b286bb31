"""Traces on each engine: from the request through the enqueue, the attempts and their follow-ups."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode
from tests.conftest import eventually
from tests.telemetry import traced_app
from tests.telemetry.spans import Spans, linked, parent_id, span_id, trace_id
from tests.tenant_kit import HOUR
from tests.worker import sample_handlers
from tests.worker.shop import Processes, Workplace, only

from leasehold import Fail, Job, Leasehold, Snooze, Steps, engine
from leasehold.model.job import JobId
from leasehold.worker import WorkerSettings

REQUEST = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def spans() -> Spans:
    return Spans()


@pytest.fixture
def app(database_url: str, spans: Spans) -> Iterator[Leasehold]:
    created = Leasehold(database_url)
    created.observe(spans.listener())
    yield created
    created.close()


@pytest.fixture
async def opened(app: Leasehold) -> AsyncIterator[Leasehold]:
    async with app.open():
        yield app


# ------------------------------------------------------------------------------------------------- from end to end


async def test_request_job_and_follow_up_are_one_trace(app: Leasehold, spans: Spans) -> None:
    @app.job
    async def email(job: Job) -> None: ...

    @app.job
    async def report(job: Job) -> None:
        await app.tenant(job.tenant).aenqueue(email)

    async with app.open():
        with spans.tracer.start_as_current_span("POST /reports"):
            await app.tenant("acme").aenqueue(report)
        await app.atick()
    chain = ["POST /reports", "enqueue report", "run report", "enqueue email", "run email"]
    found = [spans.one(name) for name in chain]
    assert len({trace_id(span) for span in found}) == 1
    assert [parent_id(span) for span in found[1:]] == [span_id(span) for span in found[:-1]]
    kinds = [SpanKind.INTERNAL, SpanKind.PRODUCER, SpanKind.CONSUMER, SpanKind.PRODUCER, SpanKind.CONSUMER]
    assert [span.kind for span in found] == kinds


async def test_a_span_says_what_it_is_about(opened: Leasehold, spans: Spans) -> None:
    @opened.job
    async def report(job: Job) -> None: ...

    placed = await opened.tenant("acme").options(correlation_id="order-1").aenqueue(report)
    await opened.atick()
    assert dict(spans.one("enqueue report").attributes or {}) == {
        "messaging.system": "leasehold",
        "messaging.operation.type": "send",
        "messaging.operation.name": "enqueue",
        "messaging.destination.name": "report",
        "messaging.message.id": placed.id,
        "leasehold.tenant": "acme",
    }
    attributes = dict(spans.one("run report").attributes or {})
    assert isinstance(attributes.pop("messaging.client.id"), str)
    assert attributes == {
        "messaging.system": "leasehold",
        "messaging.operation.type": "process",
        "messaging.operation.name": "run",
        "messaging.destination.name": "report",
        "messaging.message.id": placed.id,
        "messaging.message.conversation_id": "order-1",
        "leasehold.tenant": "acme",
        "leasehold.attempt": 1,
        "leasehold.try": 1,
        "leasehold.max_attempts": 5,
        "leasehold.job.status": "succeeded",
        "leasehold.attempt.status": "succeeded",
    }


async def test_the_span_of_an_attempt_is_current_in_coroutines_and_threads(opened: Leasehold, spans: Spans) -> None:
    seen: dict[str, int] = {}

    @opened.job
    async def coroutine(job: Job) -> None:
        await asyncio.sleep(0)
        seen["coroutine"] = trace.get_current_span().get_span_context().span_id

    @opened.job
    def thread(job: Job) -> None:
        seen["thread"] = trace.get_current_span().get_span_context().span_id

    for definition in (coroutine, thread):
        await opened.tenant("acme").aenqueue(definition)
    await opened.atick()
    # The last one: a slow emulator may have let the tick give a job back and run it again.
    assert seen == {name: span_id(spans.named(f"run {name}")[-1]) for name in ("coroutine", "thread")}
    assert not trace.get_current_span().get_span_context().is_valid


@pytest.fixture
def isolated(database_url: str) -> Iterator[Leasehold]:
    """The app of traced_app.py, which other processes import."""
    with traced_app.app.override(url=database_url):
        yield traced_app.app
    traced_app.spans.clear()


@pytest.mark.parametrize("definition", [traced_app.in_process, traced_app.coroutine_in_process], ids=lambda d: d.key)
async def test_the_span_of_an_attempt_is_current_in_its_process(isolated: Leasehold, definition: Any) -> None:
    async with isolated.open(worker=WorkerSettings(slots=1)):
        placed = await isolated.tenant("acme").aenqueue(definition)
        current = await placed.aresult(timeout="60s")
    assert current == format(span_id(traced_app.spans.one(f"run {definition.key}")), "016x")


async def test_a_follow_up_of_a_process_belongs_to_the_trace(isolated: Leasehold) -> None:
    async with isolated.open(worker=WorkerSettings(slots=1)):
        placed = await isolated.tenant("acme").aenqueue(traced_app.with_follow_up)
        await isolated.tenant("acme").jobs.await_until_final(await placed.aresult(timeout="60s"), "60s")
    first, follow_up = traced_app.spans.one("run with_follow_up"), traced_app.spans.one("run email")
    assert trace_id(follow_up) == trace_id(first)
    assert parent_id(follow_up) != span_id(first)  # its parent is the enqueue, which the other process has exported


# -------------------------------------------------------------------------------------------------------- producers


async def test_every_way_to_enqueue_carries_the_trace(opened: Leasehold, spans: Spans) -> None:
    @opened.job
    async def report(job: Job, number: int) -> None: ...

    acme = opened.tenant("acme")
    with spans.tracer.start_as_current_span("request") as request:
        await acme.aenqueue(report, number=1)
        await acme.aenqueue_key("report", {"number": 2})
        await acme.aenqueue_many(report.bind(number=number) for number in range(3, 6))
        await acme.options(dedupe_key="six").aenqueue(report, number=6)
        await asyncio.to_thread(acme.enqueue, report, number=7)
        await asyncio.to_thread(acme.enqueue_key, "report", {"number": 8})
        await asyncio.to_thread(acme.enqueue_many, [report.bind(number=9), report.bind(number=10)])
    await opened.atick()
    runs = spans.named("run report")
    assert len(runs) == 10
    assert {trace_id(span) for span in runs} == {request.get_span_context().trace_id}
    producers = {span_id(span) for span in spans.all() if span.kind is SpanKind.PRODUCER}
    assert {parent_id(span) for span in runs} == producers
    assert len(producers) == 7
    assert [(span.attributes or {})["messaging.batch.message_count"] for span in spans.named("enqueue")] == [3, 2]


async def test_the_jobs_of_an_event_belong_to_the_trace_of_the_emit(opened: Leasehold, spans: Spans) -> None:
    @opened.on("folder.updated", tenant="acme")
    @opened.job
    async def report(job: Job) -> None: ...

    await opened.atick()  # the worker registers the trigger
    with spans.tracer.start_as_current_span("request"):
        await opened.tenant("acme").aemit("folder.updated", {})
    await opened.atick()
    emit = spans.one("emit folder.updated")
    assert parent_id(spans.one("run report")) == span_id(emit)
    assert (emit.attributes or {})["messaging.batch.message_count"] == 1
    assert parent_id(emit) == span_id(spans.one("request"))


async def test_a_schedule_starts_a_trace(app: Leasehold, spans: Spans, kit: engine.TestKit) -> None:
    @app.schedule("0 * * * *", zone="UTC", tenant="acme")
    @app.job
    async def report(job: Job) -> None: ...

    async with app.open():
        await app.atick()
        await kit.clock().move(2 * HOUR)
        with spans.tracer.start_as_current_span("the cron that ticks"):
            await app.atick()
    run = spans.one("run report")
    assert run.parent is None
    assert trace_id(run) != trace_id(spans.one("the cron that ticks"))


async def test_a_refused_enqueue_ends_its_span_without_values(opened: Leasehold, spans: Spans) -> None:
    @opened.job
    async def report(job: Job, number: int) -> None: ...

    await opened.atick()
    with pytest.raises(Exception, match="sesame"):
        await opened.tenant("acme").aenqueue_key("report", {"number": "open sesame"})
    span = spans.one("enqueue report")
    assert span.status.status_code is StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "LH-1001"
    assert "sesame" not in span.to_json()


async def test_a_producer_that_does_not_trace_writes_no_context(
    database_url: str, spans: Spans, shop: Workplace
) -> None:
    app = Leasehold(database_url)

    @app.job
    async def report(job: Job) -> None: ...

    async with app.open():
        with spans.tracer.start_as_current_span("request"):
            await app.tenant("acme").aenqueue(report)
            await app.tenant("acme").aenqueue_many([report.bind()] * 2)
        claims = await claim_all(app)
    assert [claim.trace_context for claim in claims] == [None] * 3


async def test_without_an_sdk_no_context_is_written(database_url: str) -> None:
    from leasehold.telemetry.traces import Traces

    app = Leasehold(database_url)
    app.observe(Traces())  # no provider is set in this process

    @app.job
    async def report(job: Job) -> None: ...

    async with app.open():
        await app.tenant("acme").aenqueue(report)
        assert [claim.trace_context for claim in await claim_all(app)] == [None]


async def claim_all(app: Leasehold) -> Any:
    from leasehold.store import Subscription, WorkerFacts

    registration = await app.store.join(Subscription(tuple(app.handlers.keys)), WorkerFacts("test", 1), HOUR)
    return (await app.store.claim(registration, 10)).claims


# ---------------------------------------------------------------------------------------------------------- attempts


async def test_each_attempt_is_a_span_that_is_linked_to_the_one_before(opened: Leasehold, spans: Spans) -> None:
    @opened.job(backoff=Steps(0), max_attempts=3)
    async def report(job: Job) -> None:
        if job.tries < 3:
            raise ValueError(f"no luck at try {job.tries}")

    with spans.tracer.start_as_current_span("request"):
        await opened.tenant("acme").aenqueue(report)
    await opened.atick()
    enqueue, (first, second, third) = spans.one("enqueue report"), spans.named("run report")
    assert {parent_id(span) for span in (first, second, third)} == {span_id(enqueue)}
    assert [linked(span) for span in (first, second, third)] == [
        [],
        [(span_id(first), "attempt")],
        [(span_id(second), "attempt")],
    ]
    codes = [span.status.status_code for span in (first, second, third)]
    assert codes == [StatusCode.ERROR, StatusCode.ERROR, StatusCode.UNSET]
    assert first.status.description == "ValueError: no luck at try 1"
    assert (first.attributes or {})["leasehold.job.status"] == "queued"
    (raised,) = first.events
    assert (raised.attributes or {})["exception.type"] == "ValueError"
    assert "in report" in str((raised.attributes or {})["exception.stacktrace"])


async def test_a_job_that_was_enqueued_without_a_trace_has_one_trace_for_all_tries(
    opened: Leasehold, spans: Spans, shop: Workplace
) -> None:
    @opened.job(backoff=Steps(0), max_attempts=2)
    async def report(job: Job) -> None:
        if job.tries == 1:
            raise ValueError("no luck")

    await opened.atick()
    await shop.enqueue("report")
    await opened.atick()
    first, second = spans.named("run report")
    assert first.parent is None
    assert (trace_id(second), linked(second)) == (trace_id(first), [(span_id(first), "enqueue")])


async def test_a_snoozed_and_a_canceled_attempt_are_no_errors(opened: Leasehold, spans: Spans) -> None:
    @opened.job
    async def report(job: Job) -> None:
        if job.attempt == 1:
            raise Snooze(0)

    await opened.tenant("acme").aenqueue(report)
    await opened.atick()
    first, second = spans.named("run report")
    assert (first.status.status_code, linked(second)) == (StatusCode.UNSET, [(span_id(first), "attempt")])
    assert (first.attributes or {})["leasehold.attempt.status"] == "snoozed"


async def test_a_manual_retry_goes_on_with_the_trace(opened: Leasehold, spans: Spans) -> None:
    @opened.job
    async def report(job: Job) -> None:
        if job.attempt == 1:
            raise Fail("not today")

    placed = await opened.tenant("acme").aenqueue(report)
    await opened.atick()
    await opened.tenant("acme").aretry(placed.id)
    await opened.atick()
    first, second = spans.named("run report")
    assert (first.attributes or {})["leasehold.job.status"] == "failed"
    assert (trace_id(second), linked(second)) == (trace_id(first), [(span_id(first), "attempt")])


async def test_secrets_are_redacted_from_spans(
    opened: Leasehold, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = "ghp_" + "c4naryc4naryc4naryc4naryc4naryc4nary"

    @opened.job(max_attempts=1)
    async def report(job: Job, note: str) -> None:
        raise ValueError(f"refused: {note}")

    await opened.tenant("acme").aenqueue(report, note=canary)
    await opened.atick()
    told = "".join(span.to_json() for span in spans.all())
    assert "refused: [redacted]" in told
    assert canary not in told


async def test_a_listener_that_raises_disturbs_no_job(opened: Leasehold, spans: Spans) -> None:
    @opened.job
    async def report(job: Job) -> str:
        return "done"

    placed = await opened.tenant("acme").aenqueue(report)
    spans.provider.shutdown()
    await opened.atick()
    assert await placed.aresult(timeout=30) == "done"


# ----------------------------------------------------------------------------------------------------------- crashes


async def test_the_attempt_after_a_kill_is_linked_to_the_one_that_was_killed(
    shop: Workplace, processes: Processes, spans: Spans, kit: engine.TestKit, database_url: str
) -> None:
    await shop.store.sync_definitions(sample_handlers.handlers.definitions)
    producer = Leasehold(database_url)
    producer.observe(spans.listener())
    async with producer.open():
        placed = await producer.tenant("acme").aenqueue_key("wait", processes.payload)
    worker = processes.worker("--slots", "1")
    await processes.noted("began")
    worker.send(signal.SIGKILL)
    await worker.code()
    processes.go()
    await kit.clock().move(HOUR)
    async with shop.working(sample_handlers.handlers, observe=spans.listener()):

        async def ended() -> bool:
            return (await shop.job(JobId(placed.id))).status.final

        await eventually(ended, what="the end of the job")
    killed, again = spans.named("run wait")
    assert (killed.attributes or {})["leasehold.attempt.status"] == "crashed"
    assert (killed.attributes or {})["error.type"] == "lease_lost"
    assert killed.status.status_code is StatusCode.ERROR
    assert linked(again) == [(span_id(killed), "attempt")]
    assert {parent_id(killed), parent_id(again)} == {span_id(spans.one("enqueue wait"))}


async def test_a_job_given_back_at_a_shutdown_ends_its_span(shop: Workplace, spans: Spans) -> None:
    began = asyncio.Event()

    async def report(job: Any, payload: Any) -> None:
        began.set()
        await asyncio.Event().wait()

    await shop.store.sync_definitions(only(report).definitions)
    job = await shop.enqueue("report", trace_context=REQUEST)
    async with shop.working(only(report), observe=spans.listener(), grace=timedelta(milliseconds=10)):
        await began.wait()
    await shop.waits_again(job)
    run = spans.one("run report")
    assert (run.attributes or {})["leasehold.attempt.status"] == "given_back"
    assert run.status.status_code is StatusCode.UNSET
