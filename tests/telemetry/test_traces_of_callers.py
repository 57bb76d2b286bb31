"""Traces of other producers: transactions of callers, where the engine has them, and the HTTP API."""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import asyncpg
import httpx
import psycopg
import pytest
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from tests.telemetry.spans import Spans, parent_id, span_id, trace_id
from tests.tenant_kit import ACME, HOUR

from leasehold import Job, Leasehold
from leasehold.model.access import Role
from leasehold.model.job import Claim
from leasehold.operations import tokens
from leasehold.store import Subscription, WorkerFacts

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACE = 0x0AF7651916CD43DD8448EB211C80319C


@pytest.fixture
def spans() -> Spans:
    return Spans()


@pytest.fixture
def app(database_url: str) -> Iterator[Leasehold]:
    created = Leasehold(database_url)

    @created.job
    async def report(job: Job, number: int = 0) -> None: ...

    @created.on("folder.updated", tenant="acme")
    @created.job
    async def email(job: Job) -> None: ...

    yield created
    created.close()


@pytest.fixture
async def api(app: Leasehold) -> AsyncIterator[httpx.AsyncClient]:
    """A client with the token of a tenant's administrator."""
    served = app.api()
    transport = httpx.ASGITransport(served)
    async with app.open(), served.router.lifespan_context(served):
        await app.atick()
        _, token = await tokens.create(app.store, "ann", Role.TENANT_ADMIN, tenant=ACME)
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://api.test/api/v1", headers=headers) as http:
            yield http


async def claims(app: Leasehold) -> Sequence[Claim]:
    registration = await app.store.join(Subscription(tuple(app.handlers.keys)), WorkerFacts("test", 1), HOUR)
    return (await app.store.claim(registration, 10)).claims


def sent(**fields: Any) -> dict[str, Any]:
    return {"definition_key": "report", "payload": {"number": 1}, **fields}


@pytest.mark.abilities("caller_transaction")
def test_an_enqueue_in_a_transaction_of_the_caller_carries_the_trace(
    app: Leasehold, spans: Spans, database_url: str
) -> None:
    app.observe(spans.listener())
    report = app.definition("report")
    assert report is not None
    with spans.tracer.start_as_current_span("request"), psycopg.connect(database_url) as connection:
        handle = app.tenant("acme").within(connection)
        handle.enqueue(report, number=1)
        handle.enqueue_many([report.bind(number=2), report.bind(number=3)])
        handle.enqueue_key("report", {"number": 4})
    app.tick()
    assert {trace_id(span) for span in spans.named("run report")} == {trace_id(spans.one("request"))}
    assert len(spans.named("run report")) == 4


@pytest.mark.abilities("caller_transaction")
async def test_an_awaited_transaction_and_its_events_carry_the_trace(
    app: Leasehold, spans: Spans, database_url: str
) -> None:
    app.observe(spans.listener())
    connection = await asyncpg.connect(database_url)
    try:
        async with app.open():
            await app.atick()
            with spans.tracer.start_as_current_span("request"):
                async with connection.transaction():
                    await app.tenant("acme").within(connection).aenqueue_key("report", {"number": 1})
                    await app.tenant("acme").within(connection).aemit("folder.updated", {})
            await app.atick()
    finally:
        await connection.close()
    assert parent_id(spans.one("run report")) == span_id(spans.one("enqueue report"))
    assert parent_id(spans.one("run email")) == span_id(spans.one("emit folder.updated"))


async def test_a_header_goes_through_the_api_to_the_job(api: httpx.AsyncClient, app: Leasehold) -> None:
    headers = {"traceparent": PARENT, "tracestate": "vendor=1"}
    answer = await api.post("/jobs", json=sent(), headers=headers)
    assert answer.status_code == 201, answer.text
    answer = await api.post("/events", json={"name": "folder.updated", "data": {}}, headers=headers)
    assert answer.status_code == 201, answer.text
    assert [claim.trace_context for claim in await claims(app)] == [f"{PARENT} - vendor=1"] * 2


@pytest.mark.parametrize("header", ["", "00-1-2-01", "x" * 10_000])
async def test_a_header_that_is_not_valid_is_ignored(api: httpx.AsyncClient, app: Leasehold, header: str) -> None:
    answer = await api.post("/jobs", json=sent(), headers={"traceparent": header, "tracestate": "vendor=1"})
    assert answer.status_code == 201, answer.text
    assert [claim.trace_context for claim in await claims(app)] == [None]


async def test_an_api_that_traces_makes_a_span_below_the_request(
    api: httpx.AsyncClient, app: Leasehold, spans: Spans
) -> None:
    app.observe(spans.listener())
    answer = await api.post("/jobs", json=sent(), headers={"traceparent": PARENT})
    assert answer.status_code == 201, answer.text
    await app.atick()
    enqueue, run = spans.one("enqueue report"), spans.one("run report")
    assert (trace_id(enqueue), format(parent_id(enqueue) or 0, "016x")) == (TRACE, PARENT[36:52])
    assert parent_id(run) == span_id(enqueue)


async def test_an_idempotent_request_may_be_repeated_in_another_trace(api: httpx.AsyncClient, app: Leasehold) -> None:
    repeated = {"Idempotency-Key": "order-1"}
    first = await api.post("/jobs", json=sent(), headers={**repeated, "traceparent": PARENT})
    again = await api.post("/jobs", json=sent(), headers={**repeated, "traceparent": PARENT.replace("b7ad", "0000")})
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]


class RaisingProcessor(SpanProcessor):
    """A span processor of an app that has a fault."""

    def on_end(self, span: ReadableSpan) -> None:
        raise RuntimeError("this processor is broken")


async def test_a_broken_span_processor_fails_no_enqueue_and_no_job(app: Leasehold, spans: Spans) -> None:
    spans.provider.add_span_processor(RaisingProcessor())
    app.observe(spans.listener())
    async with app.open():
        placed = await app.tenant("acme").aenqueue_key("report", {"number": 1})
        await app.atick()
        assert (await app.tenant("acme").jobs.aget(placed.id)).status == "succeeded"
