"""The demo, as `make demo` runs it: it shows all states, jobs survive kills, the sum is right, nothing is left."""

import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.cli.terminal import NOWHERE
from tests.conftest import PATIENCE, eventually
from tests.embedded.processes import no_process_of
from tests.worker.shop import Process

from leasehold import embedded
from leasehold.embedded.places import moved_to
from leasehold.engines import engine_for
from leasehold.model.job import Source
from leasehold.model.status import DisplayState
from leasehold.operations import health
from leasehold.operations.health import WorkerState
from leasehold.store import Filter, Store

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "examples/demo/demo.py"
SHOPS = ("alpine", "harbor", "meadow")
SOURCES = (Source.MANUAL, Source.EVENT, Source.SCHEDULE)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="they look for processes in /proc")


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Path]:
    """The folder of the demo's data, not made yet; after the test, none of its processes may run."""
    yield tmp_path / "data"
    await _has_ended(moved_to(tmp_path / "data") or tmp_path / "data")


@pytest.fixture
async def later_home(prepared_home: Path) -> AsyncIterator[Path]:
    """The same, of a demo that ran before."""
    yield prepared_home
    await _has_ended(prepared_home)


async def _has_ended(place: Path) -> None:
    async def nobody() -> bool:
        return no_process_of(place)

    await eventually(nobody, what="the end of its Postgres")


def demo(home: Path, *options: str, **settings: str) -> Process:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LEASEHOLD_")}
    command = [sys.executable, str(DEMO), *options]
    return Process(command, environment | settings | {"LEASEHOLD_HOME": str(home)}, home.with_name("log"))


def row(said: str, shop: str) -> list[int]:
    (found,) = re.findall(rf"^{shop} +([\d ]+)$", said, re.MULTILINE)
    return [int(number) for number in found.split()]


async def stopped(running: Process) -> None:
    running.send_to_group(signal.SIGINT)
    assert await running.code() == 0, running.said


async def test_the_link_is_printed_before_the_first_job(later_home: Path) -> None:
    running = demo(later_home)
    try:
        await running.says("event=job.")
        await stopped(running)
    finally:
        assert await running.clear_up() == []
    lines = running.said.splitlines()
    link, job = (next(n for n, line in enumerate(lines) if word in line) for word in ("topic=console", "event=job."))
    assert link < job


@pytest.mark.timeout(6 * PATIENCE.total_seconds())
async def test_it_has_jobs_of_each_state_and_source_and_a_stale_worker(later_home: Path) -> None:
    running = demo(later_home)
    try:
        await running.says("topic=console")
        with embedded.postgres(later_home) as server:
            store = await engine_for(server.url).open()
            try:
                await shows_all(store)
            finally:
                await store.close()
        await running.says("503 Service Unavailable")
        await stopped(running)
    finally:
        assert await running.clear_up() == []


async def shows_all(store: Store) -> None:
    """Returns when all was seen; a job stays in some states for a moment only."""
    missing: set[object] = {*DisplayState, *SOURCES, "check-disk", WorkerState.STALE} - {DisplayState.BLOCKED}

    async def was_seen() -> bool:
        for job in (await store.find_all_tenants(Filter(), None, 500)).jobs:
            missing.difference_update({job.display, job.source, job.definition})
        fleet = await health.read_fleet(store)
        hung = [each for each in fleet.workers if each.facts.host == "printer-3"]
        missing.difference_update(health.state_of(each, fleet.now) for each in hung)
        return not missing

    try:
        await eventually(was_seen, 2 * PATIENCE)
    except pytest.fail.Exception:
        pytest.fail(f"the demo has not shown: {missing}")


async def test_no_job_is_lost_although_workers_are_killed(home: Path) -> None:
    running = demo(home)
    try:
        await running.says("topic=console")
        await running.says("event=worker.killed")
        await running.says("status=succeeded")
        await stopped(running)
    finally:
        assert await running.clear_up() == []
    assert "Lost: 0." in running.said
    enqueued, *fates, lost, _ = row(running.said, "all")
    assert enqueued > 0
    assert (sum(fates), lost) == (enqueued, 0)
    assert [sum(column) for column in zip(*(row(running.said, s) for s in SHOPS), strict=True)] == row(
        running.said, "all"
    )


@pytest.mark.faults
async def test_it_ends_by_itself_and_can_be_run_again(home: Path) -> None:
    for _ in range(2):
        running = demo(home, "--seconds", "1")
        try:
            assert await running.code() == 0, running.said
        finally:
            assert await running.clear_up() == []
        assert "Lost: 0." in running.said


async def test_it_leaves_alone_the_database_that_others_use(later_home: Path) -> None:
    running = demo(
        later_home, "--seconds", "1", LEASEHOLD_URL=NOWHERE, LEASEHOLD_SCHEMA="theirs", LEASEHOLD_FALLBACK="x"
    )
    try:
        assert await running.code() == 0, running.said
    finally:
        assert await running.clear_up() == []
    assert "Lost: 0." in running.said


async def test_killed_with_kill_9_it_leaves_nothing_behind(later_home: Path) -> None:
    running = demo(later_home)
    try:
        await running.says("event=job.started")
        running.send(signal.SIGKILL)

        async def nobody() -> bool:
            return running.family() == []

        await eventually(nobody, what="the end of its processes")
    finally:
        await running.clear_up()


def test_make_demo_runs_it() -> None:
    recipe = re.search(r"^demo: .*\n\t(.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    assert recipe[1] == f"$(BIN)/python {DEMO.relative_to(ROOT)}"
