"""The text of a trace context, and the spans in the details of attempts."""

import orjson
import pytest

from leasehold.errors import InvalidInput
from leasehold.model.job import NewJob
from leasehold.model.trace_context import TraceContext, after_attempt, span_of, with_span

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SPAN = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-00"


@pytest.mark.parametrize(
    ("context", "text"),
    [
        (TraceContext(PARENT), PARENT),
        (TraceContext(PARENT, SPAN), f"{PARENT} {SPAN}"),
        (TraceContext(PARENT, None, "a=b c"), f"{PARENT} - a=b c"),
        (TraceContext(PARENT, SPAN, "a=b c"), f"{PARENT} {SPAN} a=b c"),
    ],
)
def test_a_context_is_read_as_it_was_written(context: TraceContext, text: str) -> None:
    assert str(context) == text
    assert TraceContext.read(text) == context


@pytest.mark.parametrize(
    "text", [None, "", "-", PARENT[:-1], PARENT.upper(), f"ff{PARENT[2:]}", f"00-{'0' * 32}-{'1' * 16}-01", "x" * 999]
)
def test_text_that_is_not_a_context_is_none(text: str | None) -> None:
    assert TraceContext.read(text) is None
    assert TraceContext.of_headers(text, "a=b") is None


def test_a_tracestate_that_no_header_may_have_is_dropped() -> None:
    for state in ("a=\x00", "ü=1", "a" * 513, ""):
        assert TraceContext.of_headers(PARENT, state) == TraceContext(PARENT)
    assert TraceContext.of_headers(f" {PARENT} ", "a=b") == TraceContext(PARENT, None, "a=b")


def test_headers_have_the_enqueue_and_no_attempt() -> None:
    context = TraceContext(PARENT, SPAN, "a=b")
    assert context.as_headers() == {"traceparent": PARENT, "tracestate": "a=b"}


@pytest.mark.parametrize("details", [None, "{}", '{"where":"app.py:1"}', '{"exit_code": 1, "tail": "\\"span\\""}'])
def test_the_span_stands_first_in_the_details(details: str | None) -> None:
    written = with_span(details, SPAN)
    assert orjson.loads(written) == {"span": SPAN, **orjson.loads(details or "{}")}
    assert span_of(written) == SPAN
    assert span_of(details) is None


def test_a_span_that_is_not_one_changes_no_context() -> None:
    assert after_attempt(PARENT, "00-1-2-3") == PARENT
    assert after_attempt(PARENT, None) == PARENT
    assert after_attempt(None, None) is None


@pytest.mark.parametrize("text", ["", "trace", f"{PARENT} {'a' * 1000}", f"{PARENT} - a\nb"])
def test_a_job_with_another_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="trace_context"):
        NewJob(definition="report", trace_context=text)
