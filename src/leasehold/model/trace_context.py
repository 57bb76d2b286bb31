"""The trace context of a job: the span that enqueued it, that of its latest attempt, and the W3C tracestate. No I/O.

It is stored as one text of up to three parts, with a space between them: the traceparent of the enqueue, that of the
latest attempt that did not succeed (`-` if there is none), and the tracestate. The function `leasehold.trace_after`
of Postgres computes the same as `after_attempt`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

# Version 00 of the W3C recommendation; ids of zeros are not valid.
_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_TRACESTATE = re.compile(r"[\x20-\x7e]{1,512}")
_DETAILS = re.compile(r'\{"span":"(00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2})"')
_NONE = "-"


@dataclass(frozen=True, slots=True)
class TraceContext:
    """Where the trace of a job goes on. `previous` is the latest attempt that a next one is linked to."""

    parent: str
    previous: str | None = None
    tracestate: str | None = None

    def __str__(self) -> str:
        parts = [self.parent, self.previous or _NONE, self.tracestate or ""]
        return " ".join(parts).removesuffix(" ").removesuffix(f" {_NONE}")

    @staticmethod
    def read(text: str | None) -> "TraceContext | None":
        """Reads a stored context, which anyone may have written; None if it is not one."""
        parts = (text or "").split(" ", 2)
        if not _TRACEPARENT.fullmatch(parts[0]):
            return None
        previous = parts[1] if len(parts) > 1 and _TRACEPARENT.fullmatch(parts[1]) else None
        return TraceContext(parts[0], previous, parts[2] if len(parts) > 2 else None)

    @staticmethod
    def of_headers(traceparent: str | None, tracestate: str | None) -> "TraceContext | None":
        """Reads the headers of a request; None without a valid traceparent. An invalid tracestate is dropped."""
        parent = (traceparent or "").strip()
        if not _TRACEPARENT.fullmatch(parent):
            return None
        state = (tracestate or "").strip()
        return TraceContext(parent, tracestate=state if _TRACESTATE.fullmatch(state) else None)

    def as_headers(self) -> dict[str, str]:
        state = {} if self.tracestate is None else {"tracestate": self.tracestate}
        return {"traceparent": self.parent, **state}


def span_of(details: str | None) -> str | None:
    """Returns the span that the details of an attempt begin with; None if the attempt was not traced."""
    found = _DETAILS.match(details or "")
    return found and found[1]


def with_span(details: str | None, span: str) -> str:
    """Returns the details of an attempt with its span, which stands first: engines look for it there."""
    rest = (details or "{}")[1:]
    return f'{{"span":"{span}"{"," if rest != "}" else ""}{rest}'


def after_attempt(context: str | None, span: str | None) -> str | None:
    """Returns a job's context after an attempt with this span. A job without any takes up the attempt's trace."""
    if span is None or not _TRACEPARENT.fullmatch(span):
        return context
    known = TraceContext.read(context)
    return span if known is None else str(replace(known, previous=span))


def problems_of_trace_context(text: str) -> Iterator[str]:
    if TraceContext.read(text) is None or len(text) > 1000 or not text.isascii() or not text.isprintable():
        yield f"trace_context={text[:80]!r} does not begin with a W3C traceparent"
