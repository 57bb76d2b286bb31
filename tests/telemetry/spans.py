"""Spans of a test, kept in memory, and apps that make them."""

from collections.abc import Sequence
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Tracer

from leasehold.telemetry.traces import Traces


class Spans:
    """A tracer provider that keeps the spans that have ended."""

    def __init__(self) -> None:
        self.provider = TracerProvider()
        self._exporter = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    @property
    def tracer(self) -> Tracer:
        return self.provider.get_tracer("test")

    def listener(self, sample: float = 1.0) -> Traces:
        return Traces(self.provider, sample=sample)

    def all(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    def clear(self) -> None:
        self._exporter.clear()

    def named(self, name: str) -> list[ReadableSpan]:
        """The spans of this name, in the order in which they began."""
        return sorted((span for span in self.all() if span.name == name), key=lambda span: span.start_time or 0)

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.named(name)
        return span


def span_id(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.span_id


def trace_id(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.trace_id


def parent_id(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def linked(span: ReadableSpan) -> list[tuple[int, Any]]:
    """The spans that it is linked to, each with what it is."""
    return [(link.context.span_id, (link.attributes or {})["leasehold.link"]) for link in span.links]
