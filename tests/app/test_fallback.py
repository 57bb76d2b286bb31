"""LEASEHOLD_FALLBACK reaches every worker that an app starts."""

import sys
import textwrap
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.cli.terminal import CommandLine

from leasehold import Job, Leasehold
from leasehold.cli import worker as command
from leasehold.telemetry import Observer
from leasehold.worker import Worker, WorkerSettings
from leasehold.worker.wake import WakeChain

SEVEN = timedelta(seconds=7)
APP = """
    from leasehold import Job, Leasehold

    app = Leasehold()

    @app.job
    async def report(job: Job) -> None: ...
"""


@pytest.fixture
def app(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Leasehold:
    monkeypatch.setenv("LEASEHOLD_FALLBACK", "7s")
    created = Leasehold(database_url)

    @created.job
    async def report(job: Job) -> None: ...

    return created


@pytest.fixture
def fallbacks(monkeypatch: pytest.MonkeyPatch) -> list[timedelta]:
    """The fallback that each wake chain of this process begins with."""
    begun: list[timedelta] = []
    begin = WakeChain.__init__

    def noted(chain: WakeChain, dispatchers: int, fallback: timedelta) -> None:
        begun.append(fallback)
        begin(chain, dispatchers, fallback)

    monkeypatch.setattr(WakeChain, "__init__", noted)
    return begun


@pytest.mark.parametrize(
    ("how", "expected"),
    [(True, SEVEN), (WorkerSettings(slots=2), SEVEN), (WorkerSettings(fallback=3 * SEVEN), 3 * SEVEN)],
    ids=["as it is", "with slots", "with a fallback of its own"],
)
async def test_the_fallback_reaches_a_worker_in_this_process(
    app: Leasehold, fallbacks: list[timedelta], how: bool | WorkerSettings, expected: timedelta
) -> None:
    async with app.open(worker=how):
        assert fallbacks == [expected]


async def test_the_fallback_reaches_the_worker_of_the_command(
    leasehold: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, make_worker = list[WorkerSettings](), Leasehold.make_worker

    def noted(app: Leasehold, url: str, settings: WorkerSettings, observe: Observer, **more: Any) -> Worker:
        made.append(settings)
        return make_worker(app, url, settings, observe, **more)

    def serve(make: Callable[[], Worker], *_: object) -> int:
        make()
        return 0

    monkeypatch.setattr(Leasehold, "make_worker", noted)
    monkeypatch.setattr(command, "serve", serve)
    monkeypatch.setattr(command, "leave", sys.exit)  # which ends the process at once otherwise
    file = tmp_path / "app.py"
    file.write_text(textwrap.dedent(APP))
    answer = await leasehold("worker", f"{file}:app", LEASEHOLD_FALLBACK="7s")
    assert (answer.code, [settings.fallback for settings in made]) == (0, [SEVEN]), answer.err


@pytest.fixture
def leasehold(database_url: str) -> CommandLine:
    return CommandLine(database_url)
