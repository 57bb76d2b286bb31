"""`Traces(sample=…)`: which enqueues and jobs begin a trace, decided before the SDK is asked."""

import math
from collections import Counter
from collections.abc import AsyncIterator

import pytest
from tests.telemetry import left_out_app
from tests.telemetry.spans import Spans, parent_id, span_id

from leasehold import Job, Leasehold, Steps
from leasehold.errors import InvalidInput
from leasehold.telemetry.traces import Traces
from leasehold.worker import WorkerSettings


@pytest.fixture
def spans() -> Spans:
    return Spans()


@pytest.fixture
async def app(database_url: str, spans: Spans) -> AsyncIterator[Leasehold]:
    created = Leasehold(database_url)
    created.observe(spans.listener(sample=0))
    async with created.open():
        yield created


async def test_a_job_that_is_left_out_has_no_span(app: Leasehold, spans: Spans) -> None:
    @app.job
    async def report(job: Job) -> None: ...

    await app.tenant("acme").aenqueue(report)
    assert (await app.atick()).succeeded == 1
    assert spans.all() == ()


async def test_an_enqueue_that_is_left_out_gives_its_job_no_context(
    app: Leasehold, spans: Spans, database_url: str
) -> None:
    async def report(job: Job) -> None: ...

    await app.tenant("acme").aenqueue(app.job(report))
    traced = Leasehold(database_url)
    traced.observe(spans.listener())
    traced.job(report)
    async with traced.open():
        await traced.atick()
    assert parent_id(spans.one("run report")) is None


async def test_a_job_of_a_traced_request_is_never_left_out(app: Leasehold, spans: Spans) -> None:
    @app.job
    async def report(job: Job) -> None: ...

    with spans.tracer.start_as_current_span("POST /reports"):
        await app.tenant("acme").aenqueue(report)
    await app.atick()
    assert parent_id(spans.one("enqueue report")) == span_id(spans.one("POST /reports"))
    assert parent_id(spans.one("run report")) == span_id(spans.one("enqueue report"))


@pytest.mark.parametrize("in_thread", [False, True], ids=["coroutine", "thread"])
async def test_spans_of_a_handler_are_left_out_with_its_job(app: Leasehold, spans: Spans, in_thread: bool) -> None:
    def make_a_span() -> None:
        with spans.tracer.start_as_current_span("of the handler"):
            pass

    async def report(job: Job) -> None:
        make_a_span()

    def report_in_thread(job: Job) -> None:
        make_a_span()

    defined = app.job(key="report")(report_in_thread if in_thread else report)
    await app.tenant("acme").aenqueue(defined)
    assert (await app.atick()).succeeded == 1
    assert spans.all() == ()
    make_a_span()
    assert len(spans.all()) == 1  # outside of a job


async def test_spans_of_a_process_are_left_out_with_its_job(database_url: str) -> None:
    app = left_out_app.app
    with app.override(url=database_url):
        async with app.open(worker=WorkerSettings(slots=1)):
            placed = await app.tenant("acme").aenqueue(left_out_app.in_process)
            assert await placed.aresult(timeout="60s") == {"valid": True, "sampled": False}


async def test_follow_ups_of_a_job_that_is_left_out_may_begin_a_trace(
    database_url: str, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Leasehold(database_url)
    app.observe(spans.listener(sample=1e-9))

    @app.job
    async def email(job: Job) -> None: ...

    @app.job
    async def report(job: Job) -> None:
        monkeypatch.setattr("leasehold.telemetry.traces.random.random", lambda: 0.0)
        await app.tenant(job.tenant).aenqueue(email)

    async with app.open():
        await app.tenant("acme").aenqueue(report)
        await app.atick()
    assert parent_id(spans.one("enqueue email")) is None
    assert parent_id(spans.one("run email")) == span_id(spans.one("enqueue email"))


async def test_all_tries_of_a_job_are_traced_or_none_is(database_url: str, spans: Spans) -> None:
    app = Leasehold(database_url)
    app.observe(spans.listener(sample=0.5))

    @app.job(backoff=Steps(0))
    async def report(job: Job) -> None:
        if job.tries == 1:
            raise ConnectionError("the mail server is away")

    async with app.open():
        for _ in range(40):
            await app.tenant("acme").aenqueue(report)
        ticked = await app.atick(max_jobs=100)
    assert ticked.succeeded == 40
    tries = Counter((span.attributes or {})["messaging.message.id"] for span in spans.named("run report"))
    assert set(tries.values()) == {2}
    assert len(spans.named("enqueue report")) < len(tries) < 40


@pytest.mark.parametrize("sample", [-0.1, 1.5, math.nan])
def test_a_part_beyond_all_traces_is_refused(sample: float) -> None:
    with pytest.raises(InvalidInput, match="is not a part of all traces"):
        Traces(sample=sample)
