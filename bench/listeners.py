"""The listeners whose cost is measured, by name, and those of `all`: as a service has them in production."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio

from leasehold.config import process_redactor
from leasehold.telemetry import Event, JobStarted, Listener, Listeners, Observer
from leasehold.telemetry.listeners import ALL_EVENTS
from leasehold.telemetry.logs import JsonLines
from leasehold.telemetry.metrics import Metrics
from leasehold.telemetry.sentry import Sentry
from leasehold.telemetry.traces import Traces


class Ignoring(Listener):
    """Takes all events but starts, and does nothing with them; claims and ends in batches, as all of ours do."""

    wants = ALL_EVENTS - {JobStarted}

    def on_claims(self, claims: Any) -> None: ...

    def on_ends(self, ends: Any) -> None: ...


def every_event(event: Event) -> None:
    """Takes an event for each claim, start and end: what a plain function of a user costs before it does anything."""


def json_lines() -> Observer:
    """Writes into a file without a name, as a service manager would have it on a pipe."""
    return JsonLines(structlog.get_logger(), tempfile.TemporaryFile(), process_redactor().text)


class Nowhere(SpanExporter):
    """Takes spans and sends nothing: to send them is work of the collector's protocol, not of ours."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def traces(sampled: float = 1.0, *, by_sdk: float = 1.0) -> Observer:
    """Samples a part of the traces, with the processor of the SDK that batches spans."""
    provider = TracerProvider(sampler=ParentBasedTraceIdRatio(by_sdk))
    provider.add_span_processor(BatchSpanProcessor(Nowhere()))
    return Traces(provider, sample=sampled)


CONTROL, ALL = "none", "all"
LISTENERS: Mapping[str, Callable[[], Observer]] = {
    "logs": json_lines,
    "metrics": Metrics,
    "Sentry": Sentry,
    "traces, 1 % of the jobs": lambda: traces(0.01),
    "traces, 1 % sampled": lambda: traces(by_sdk=0.01),
    "traces, all sampled": traces,
}
IN_PRODUCTION = ("logs", "metrics", "Sentry", "traces, 1 % of the jobs")
IDLE: Mapping[str, Callable[[], Observer]] = {
    "an ignoring listener": Ignoring,
    "an event for each": lambda: every_event,
}


def observers_named(name: str) -> list[Observer]:
    if name == CONTROL:
        return []
    names = IN_PRODUCTION if name == ALL else (name,)
    return [{**LISTENERS, **IDLE}[each]() for each in names]


def listeners_named(name: str) -> Listeners:
    return Listeners(observers_named(name))
