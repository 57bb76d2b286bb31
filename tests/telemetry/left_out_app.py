"""An app that begins no trace by itself, with a handler in a process of its own."""

from opentelemetry.trace import get_current_span
from tests.telemetry.spans import Spans

from leasehold import Job, Leasehold

app = Leasehold(observe=Spans().listener(sample=0))


@app.job(isolation="process")
def in_process(job: Job) -> dict[str, bool]:
    span = get_current_span().get_span_context()
    return {"valid": span.is_valid, "sampled": span.trace_flags.sampled}
