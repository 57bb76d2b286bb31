"""The orderly end of a process closes its listeners: what they have not sent yet is sent before it ends."""

import asyncio
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import pytest
from tests.conftest import eventually
from tests.telemetry.sentry_server import SentryServer
from tests.worker.shop import Processes, Workplace

from leasehold import Job, Leasehold
from leasehold.telemetry import Event, Listener

APP = Path(__file__).parent / "closing_app.py"
SCHEDULER = """
from leasehold.runtime.process import leave, serve
from tests.telemetry.closing_app import app
leave(serve(lambda: app.make_scheduler(app.settings.url), lambda: print("it runs", flush=True)))
"""
HANGING = """
from leasehold.runtime import process
from tests.telemetry.closing_app import Hangs, app
process.CLOSE_TIMEOUT, process.FORCED_END = 3600.0, {forced_end}
app.observe(Hangs())
"""


def hanging(processes: Processes, forced_end: float) -> Path:
    """An app with a listener whose close never ends, and a process that would wait for an hour."""
    file = processes.folder / "hanging.py"
    file.write_text(HANGING.format(forced_end=forced_end))
    return file


@pytest.fixture
def server() -> Iterator[SentryServer]:
    with SentryServer().serving() as server:
        yield server


@pytest.fixture
def app(database_url: str) -> Leasehold:
    return Leasehold(database_url, tenant="acme")


class Closes(Listener):
    """Counts how often it was closed, and which events came before."""

    def __init__(self) -> None:
        self.closed = 0
        self.heard: list[str] = []

    def __call__(self, event: Event) -> None:
        self.heard.append(event.event)

    def close(self) -> None:
        self.closed += 1
        self.heard.append("closed")


async def test_a_stopped_worker_sends_its_last_failure_and_spans(
    shop: Workplace, processes: Processes, server: SentryServer
) -> None:
    spans = processes.folder / "spans"
    worker = processes.worker(handlers=APP, SENTRY_DSN=server.dsn, SPANS=str(spans))
    await worker.says("✓ worker")
    job = await shop.enqueue("fail_at_last", payload=processes.payload)

    async def began() -> bool:
        return (processes.folder / "began").exists()

    await eventually(began, what="the start of the handler")
    worker.send(signal.SIGTERM)
    processes.go()
    assert await worker.code() == 0
    assert [event["tags"]["job_id"] for event in server.events] == [job]
    assert spans.read_text().splitlines() == ["run fail_at_last"]
    assert worker.said.count("a listener was closed") == 1


async def test_the_process_of_a_handler_exports_its_spans_at_its_end(shop: Workplace, processes: Processes) -> None:
    spans = processes.folder / "spans"
    worker = processes.worker(handlers=APP, SPANS=str(spans))
    await worker.says("✓ worker")
    await shop.ended(await shop.enqueue("enqueue_email", payload={}))
    worker.send(signal.SIGTERM)
    assert await worker.code() == 0
    assert sorted(spans.read_text().splitlines()) == ["enqueue email", "run enqueue_email"]


async def test_a_lifespan_that_exits_leaves_its_listeners_closed(shop: Workplace, processes: Processes) -> None:
    spans = processes.folder / "spans"
    worker = processes.worker(handlers=APP, SPANS=str(spans))
    await worker.says("✓ worker")
    await shop.ended(await shop.enqueue("enqueue_email", payload={"badly": True}))
    worker.send(signal.SIGTERM)
    assert await worker.code() == 0
    assert "enqueue email" in spans.read_text().splitlines()


async def test_listeners_have_no_longer_than_the_process(shop: Workplace, processes: Processes) -> None:
    """The process ends in order, a moment before it would be ended by force."""
    worker = processes.worker("--grace", "1s", handlers=hanging(processes, forced_end=5.0))
    await worker.says("✓ worker")
    worker.send(signal.SIGTERM)
    assert await worker.code() == 0
    assert "the listener Hangs was not closed within" in worker.said


async def test_a_third_signal_ends_a_process_that_closes_listeners(shop: Workplace, processes: Processes) -> None:
    worker = processes.worker(handlers=hanging(processes, forced_end=3600.0))
    await worker.says("✓ worker")
    worker.send(signal.SIGTERM)
    await worker.says("a listener hangs")

    async def ended() -> bool:
        worker.send(signal.SIGTERM)
        return worker.ended

    await eventually(ended, what="an end by force")
    assert await worker.code() == 1
    assert "a third signal came" in worker.said


async def test_a_scheduler_closes_its_listeners_at_its_end(shop: Workplace, processes: Processes) -> None:
    scheduler = processes.python("-c", SCHEDULER)
    await scheduler.says("it runs")
    scheduler.send(signal.SIGTERM)
    assert await scheduler.code() == 0
    assert scheduler.said.count("a listener was closed") == 1


async def test_an_api_server_closes_its_listeners_at_its_end(shop: Workplace, processes: Processes) -> None:
    words = ("-c", "from leasehold.cli import main; main()", "serve", str(APP), "--port", "0")
    api = processes.python(*words)
    await api.says("✓ api")
    (address,) = re.findall(r"✓ api  (\S+)", api.said)

    async def answers() -> bool:
        with suppress(OSError):
            await asyncio.to_thread(urlopen, f"{address}/health", timeout=30)
            return True
        return False

    await eventually(answers, what="the first answer of the server")
    api.send(signal.SIGTERM)
    assert await api.code() == -signal.SIGTERM  # uvicorn ends orderly, then by the signal that it got
    assert api.said.count("a listener was closed") == 1


async def test_a_worker_in_the_apps_process_closes_listeners_last(app: Leasehold) -> None:
    closes = app.observe(Closes())

    @app.job
    async def report(job: Job) -> None: ...

    async with app.open(worker=True):
        await (await app.aenqueue(report)).aresult(timeout="60s")
        assert closes.closed == 0
    assert closes.closed == 1
    assert closes.heard.index("worker.left") < closes.heard.index("closed")


async def test_an_app_that_is_open_without_a_worker_closes_none(app: Leasehold) -> None:
    closes = app.observe(Closes())
    async with app.open():
        await app.aemit("order.placed")
    assert closes.closed == 0
