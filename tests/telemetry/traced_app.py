"""An app whose handlers run in processes of their own. Each process traces, and keeps its spans in memory."""

from opentelemetry.trace import get_current_span
from tests.telemetry.spans import Spans

from leasehold import Job, Leasehold

spans = Spans()
app = Leasehold(observe=spans.listener())


@app.job
async def email(job: Job) -> None: ...


@app.job(isolation="process")
def in_process(job: Job) -> str:
    return format(get_current_span().get_span_context().span_id, "016x")


@app.job(isolation="process")
async def coroutine_in_process(job: Job) -> str:
    return format(get_current_span().get_span_context().span_id, "016x")


@app.job(isolation="process")
async def with_follow_up(job: Job) -> str:
    return (await app.tenant(job.tenant).aenqueue(email)).id
