"""An app for processes of their own that end: its listeners send nothing before they are closed.

SENTRY_DSN  where failures go; none is sent before a listener was closed, so that a process that closes none loses it
SPANS       the file that gets the names of exported spans
"""

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import sentry_sdk
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from leasehold import Fail, Job, Leasehold
from leasehold.runtime import process
from leasehold.telemetry import Listener
from leasehold.telemetry.sentry import Sentry
from leasehold.telemetry.traces import Traces
from leasehold.worker import handler_process, isolated_process, processes

HOUR_IN_MS = 3_600_000
# A busy machine may be slow: here no end comes by force.
for module, limit, seconds in (
    (process, "CLOSE_TIMEOUT", 120.0),
    (process, "FORCED_END", 300.0),
    (handler_process, "LISTENERS_LIMIT", 120.0),
    (isolated_process, "CLOSE_LIMIT", 300.0),
    (processes, "CLOSE_LIMIT", 300.0),
):
    setattr(module, limit, seconds)
closed, exits_badly = threading.Event(), threading.Event()


class SaysThatItIsClosed(Listener):
    wants = ()

    def close(self) -> None:
        sys.stderr.write("a listener was closed\n")
        closed.set()


class Hangs(Listener):
    wants = ()

    def close(self) -> None:
        sys.stderr.write("a listener hangs\n")
        threading.Event().wait()


class FileExporter(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with Path(os.environ["SPANS"]).open("a") as file:
            file.write("".join(f"{span.name}\n" for span in spans))
        return SpanExportResult.SUCCESS


def send_after_close(event: Any, hint: Any) -> Any:
    closed.wait()
    return event


if "SENTRY_DSN" in os.environ:
    sentry_sdk.init(before_send=send_after_close, auto_session_tracking=False)
provider = TracerProvider(shutdown_on_exit=False)
provider.add_span_processor(BatchSpanProcessor(FileExporter(), schedule_delay_millis=HOUR_IN_MS))


@asynccontextmanager
async def lifespan(_: Leasehold) -> AsyncIterator[None]:
    yield
    if exits_badly.is_set():
        raise SystemExit(3)


app = Leasehold(tenant="acme", lifespan=lifespan)
app.observe(SaysThatItIsClosed())
app.observe(Sentry())
app.observe(Traces(provider))


@app.job
async def email(job: Job) -> None: ...


@app.job(max_attempts=1)
async def fail_at_last(job: Job, folder: str) -> None:
    (Path(folder) / "began").touch()
    while not (Path(folder) / "go").exists():  # noqa: ASYNC110 - the sign comes from another process
        await asyncio.sleep(0.02)
    raise Fail("the last failure")


@app.job(isolation="process")
def enqueue_email(job: Job, badly: bool = False) -> None:
    """Enqueues, and with `badly` makes the end of the lifespan exit."""
    app.tenant(job.tenant).options(delay="1h").enqueue(email)
    if badly:
        exits_badly.set()
