"""OpenTelemetry traces: a span for each enqueue and each attempt, joined by the context that a job carries.

    app.observe(Traces())

request ──▶ enqueue report ──▶ run report (try 1) ──▶ enqueue email ──▶ run email
                          └──▶ run report (try 2), linked to try 1

Only the API of OpenTelemetry is needed here. The app configures its SDK: a tracer provider with an exporter. Without
one no span is recorded, and jobs carry no context. Texts of errors come redacted; no payload is part of a span.
"""

import logging
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import time_ns
from types import TracebackType
from typing import Any, Self
from zlib import crc32

from leasehold.errors import InvalidInput, LeaseholdError
from leasehold.model.job import Claim, TenantId
from leasehold.model.outcome import Outcome, Raised, TimedOut, Verdict
from leasehold.model.status import Status
from leasehold.model.trace_context import TraceContext
from leasehold.telemetry.events import Event, JobDiscarded, JobGivenBack
from leasehold.telemetry.listeners import AttemptEnd, Tracing
from leasehold.telemetry.productions import Production, Untraced

try:
    from opentelemetry import context as contexts
    from opentelemetry.context import Context
    from opentelemetry.trace import (
        Link,
        NonRecordingSpan,
        Span,
        SpanContext,
        SpanKind,
        StatusCode,
        TraceFlags,
        Tracer,
        TracerProvider,
        TraceState,
        get_current_span,
        get_tracer,
        get_tracer_provider,
        set_span_in_context,
    )
except ModuleNotFoundError as error:
    raise InvalidInput(
        "traces need the package opentelemetry-api, which is not installed. Nothing was changed.",
        fix="Run: pip install 'leasehold[otel]'",
    ) from error

log = logging.getLogger("leasehold")

SYSTEM = "leasehold"
LONGEST_NAME = 200
# Spans of attempts that began; more than a worker has slots are never open. A leak would be a bug, and is bounded.
MOST_OPEN = 100_000

# The current span in jobs that are left out. It is valid and not sampled, so that samplers drop what handlers begin.
_LEFT_OUT = NonRecordingSpan(SpanContext(random.getrandbits(128) or 1, random.getrandbits(64) or 1, is_remote=True))

_Key = tuple[str, str, int, str]


class Traces(Tracing):
    """Makes spans with the given tracer provider, by default that of the process when the first span is made.

    `sample` is the part of the enqueues and jobs that begin a trace, among those that belong to none. It is decided
    before the SDK is asked, which takes 4 µs to drop a span: a job that is left out costs next to nothing. Enqueues
    within a span, and jobs that carry a context, are left to the sampler of the SDK.
    """

    wants = (JobGivenBack, JobDiscarded)

    def __init__(self, tracer_provider: TracerProvider | None = None, *, sample: float = 1.0) -> None:
        if not 0 <= sample <= 1:
            raise InvalidInput(
                f"sample={sample!r} is not a part of all traces. Nothing was changed.",
                fix="Pass a number from 0 to 1, such as 0.01 for one in a hundred.",
            )
        self._sample = sample
        self._chosen_below = sample * 2**32
        self._provider = tracer_provider
        self._tracer = get_tracer(SYSTEM, tracer_provider=tracer_provider)
        self._open: dict[_Key, _AttemptSpan] = {}
        self._complained = False

    # -------------------------------------------------------------------------------------------------- in producers

    def produce(self, verb: str, name: str | None, tenant: TenantId, parent: str | None = None) -> Production:
        try:
            current, ambient = get_current_span(), None
            if current is _LEFT_OUT or not current.get_span_context().is_valid:
                if parent is None and random.random() >= self._sample:
                    return Untraced()
                if parent is not None or current is _LEFT_OUT:
                    ambient = _remote(TraceContext.read(parent))
            return _ProducerSpan(self._tracer, verb, name, tenant, ambient, self._complain)
        except Exception:  # of a sampler or a span processor of the app
            self._complain()
            return Untraced(parent)

    # ---------------------------------------------------------------------------------------------------- in workers

    def around(self, claim: Claim) -> "_AttemptSpan | None":
        """Returns None for a job that is left out: by its id, so that all its tries are traced or none is."""
        if claim.trace_context is None and crc32(claim.job.encode()) >= self._chosen_below:
            return None
        return self._begin(claim)

    def _begin(self, claim: Claim) -> "_AttemptSpan":
        attempt = _AttemptSpan(self._tracer, claim)
        if len(self._open) < MOST_OPEN:
            self._open[_key(claim)] = attempt
        return attempt

    def span_of(self, claim: Claim) -> str | None:
        attempt = self._open.get(_key(claim))
        return None if attempt is None or attempt.span is None else _traceparent(attempt.span.get_span_context())

    def begin_crashed(self, claim: Claim) -> str | None:
        try:
            if (attempt := self.around(claim)) is not None:
                attempt.begin(int(claim.started * 1e9))
        except Exception:
            self._complain()
        return self.span_of(claim)

    def on_ends(self, ends: Sequence[AttemptEnd]) -> None:
        traced = {job for _tenant, job, _attempt, _worker in self._open}
        for claim, verdict, _seconds, outcome in [end for end in ends if end[0].job in traced] if traced else ():
            if (attempt := self._open.pop(_key(claim), None)) is not None:
                try:  # for each: an exporter that raises must not leave the spans behind it open
                    attempt.end(verdict, outcome)
                except Exception:
                    self._complain()

    def on_reclaims(self, ends: Sequence[AttemptEnd]) -> None:
        self.on_ends(ends)

    def __call__(self, event: Event) -> None:
        if isinstance(event, JobGivenBack | JobDiscarded):
            key = event.tenant, event.job, event.attempt, event.worker
            if (attempt := self._open.pop(key, None)) is not None:
                attempt.end_without_verdict(event)

    def _complain(self) -> None:
        if not self._complained:
            self._complained = True
            log.exception("a span could not be made; further errors are not logged")

    def drop(self, claims: Iterable[Claim]) -> None:
        for claim in claims:
            self._open.pop(_key(claim), None)

    def close(self) -> None:
        """Exports the spans that the SDK still has: a worker's process ends without its exit handlers."""
        flush: Callable[[], object] | None = getattr(self._provider or get_tracer_provider(), "force_flush", None)
        if flush is not None:  # a provider of the API alone exports nothing
            flush()

    def attach(self, trace_context: str | None) -> None:
        if trace_context is None and self._sample < 1:
            contexts.attach(set_span_in_context(_LEFT_OUT, Context()))
        else:
            contexts.attach(_remote(TraceContext.read(trace_context)))


class _ProducerSpan:
    """The span of an enqueue or emit. It is the current one until the call returns.

    An error of the app's span processor is only logged: the job may be committed already.
    """

    __slots__ = ("_complain", "_token", "span", "trace_context")

    def __init__(
        self,
        tracer: Tracer,
        verb: str,
        name: str | None,
        tenant: TenantId,
        ambient: Context | None,
        complain: Callable[[], None],
    ) -> None:
        attributes: dict[str, Any] = {
            "messaging.system": SYSTEM,
            "messaging.operation.type": "send",
            "messaging.operation.name": verb,
            "leasehold.tenant": tenant,
        }
        title = verb
        if name is not None:
            attributes["messaging.destination.name"] = shown = str(name)[:LONGEST_NAME]
            title = f"{verb} {shown}"
        self.span = tracer.start_span(title, ambient, SpanKind.PRODUCER, attributes)
        self.trace_context = _context_of(self.span.get_span_context())
        self._complain = complain
        self._token: Any = None

    def note(self, *, job: str | None = None, count: int | None = None) -> None:
        if job is not None:
            self.span.set_attribute("messaging.message.id", job)
        if count is not None:
            self.span.set_attribute("messaging.batch.message_count", count)

    def __enter__(self) -> Self:
        self._token = contexts.attach(set_span_in_context(self.span))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the span. Of an error only its kind is told: its text may have values of the payload."""
        contexts.detach(self._token)
        try:
            if kind is not None:
                code = error.code if isinstance(error, LeaseholdError) else kind.__qualname__
                self.span.set_attribute("error.type", code)
                self.span.set_status(StatusCode.ERROR, kind.__qualname__)
            self.span.end()
        except Exception:
            self._complain()


class _AttemptSpan:
    """The span of one attempt: current while the handler runs, and ended when its verdict is written."""

    __slots__ = ("_claim", "_ended", "_token", "_tracer", "span")

    def __init__(self, tracer: Tracer, claim: Claim) -> None:
        self._tracer = tracer
        self._claim = claim
        self._ended: int | None = None
        self._token: Any = None
        self.span: Span | None = None

    def begin(self, start_time: int | None = None) -> Span:
        """Starts the span in the trace of the job, and never in that of the worker."""
        claim = self._claim
        traced = TraceContext.read(claim.trace_context)
        self.span = self._tracer.start_span(
            f"run {claim.definition.key}",
            _remote(traced),
            SpanKind.CONSUMER,
            _attributes(claim),
            _links(traced) if claim.attempt > 1 else (),
            start_time,
        )
        return self.span

    def __enter__(self) -> None:
        self._token = contexts.attach(set_span_in_context(self.begin(), Context()))

    def __exit__(self, *error: object) -> None:
        self._ended = time_ns()
        contexts.detach(self._token)

    def end(self, verdict: Verdict, outcome: Outcome) -> None:
        span = self.span
        if span is None:
            return
        if span.is_recording():
            span.set_attribute("leasehold.job.status", verdict.status.value)
            span.set_attribute("leasehold.attempt.status", verdict.attempt.value)
            if verdict.error_code is not None:
                self._note_error(span, verdict, outcome)
        span.end(self._ended)

    def end_without_verdict(self, event: JobGivenBack | JobDiscarded) -> None:
        if self.span is None:
            return
        self.span.set_attribute("leasehold.attempt.status", event.event.removeprefix("job."))
        if isinstance(event, JobDiscarded):
            self.span.set_attribute("error.type", "discarded")
            self.span.set_status(StatusCode.ERROR, "the claim was lost: nothing of this attempt counts")
        self.span.end(self._ended)

    def _note_error(self, span: Span, verdict: Verdict, outcome: Outcome) -> None:
        code, message = verdict.error_code or "", verdict.error or ""
        span.set_attribute("error.type", code)
        if verdict.status is Status.QUEUED:
            span.set_attribute("leasehold.retry_in", verdict.delay.total_seconds())
        raised = {"exception.type": code, "exception.message": message}
        trace = outcome.trace if isinstance(outcome, Raised | TimedOut) else None
        if trace is not None:
            raised["exception.stacktrace"] = trace.traceback
        span.add_event("exception", raised, self._ended)
        span.set_status(StatusCode.ERROR, f"{code}: {message[:300]}")


def _key(claim: Claim) -> _Key:
    return claim.tenant, claim.job, claim.attempt, claim.worker


def _attributes(claim: Claim) -> Mapping[str, Any]:
    attributes: dict[str, Any] = {
        "messaging.system": SYSTEM,
        "messaging.operation.type": "process",
        "messaging.operation.name": "run",
        "messaging.destination.name": claim.definition.key,
        "messaging.message.id": claim.job,
        "messaging.client.id": claim.worker,
        "leasehold.tenant": claim.tenant,
        "leasehold.attempt": claim.attempt,
        "leasehold.try": claim.tries,
        "leasehold.max_attempts": claim.max_attempts,
    }
    if claim.correlation_id is not None:
        attributes["messaging.message.conversation_id"] = claim.correlation_id
    return attributes


def _links(traced: TraceContext | None) -> Sequence[Link]:
    """Links a later attempt to the one before; to the enqueue, if the attempt before was not traced."""
    if traced is None:
        return ()
    kind = "enqueue" if traced.previous is None else "attempt"
    return (Link(_span_context(traced.previous or traced.parent), {"leasehold.link": kind}),)


def _remote(traced: TraceContext | None) -> Context:
    """Returns a context whose current span is the one that the job was enqueued in; an empty one starts a trace."""
    if traced is None:
        return Context()
    return set_span_in_context(NonRecordingSpan(_span_context(traced.parent, traced.tracestate)), Context())


def _span_context(traceparent: str, tracestate: str | None = None) -> SpanContext:
    _, trace_id, span_id, flags = traceparent.split("-")
    state = TraceState() if tracestate is None else TraceState.from_header([tracestate])
    return SpanContext(int(trace_id, 16), int(span_id, 16), True, TraceFlags(int(flags, 16)), state)


def _traceparent(span: SpanContext) -> str | None:
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}" if span.is_valid else None


def _context_of(span: SpanContext) -> str | None:
    parent = _traceparent(span)
    return None if parent is None else str(TraceContext(parent, tracestate=span.trace_state.to_header() or None))
