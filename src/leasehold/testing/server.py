"""The server of a test run: the one that LEASEHOLD_TEST_URL names, else an embedded Postgres for the whole run.

The first process of a run names it, by two variables that its further processes (as of xdist) inherit, and clears up
after all of them. Nothing is started or connected to before a test asks for it.
"""

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from leasehold import embedded
from leasehold.config import Settings
from leasehold.engine import ClonedDatabases
from leasehold.engines import engine_for

T = TypeVar("T")

RUN, HOME, URL = "LEASEHOLD_TEST_RUN", "LEASEHOLD_TEST_HOME", "LEASEHOLD_TEST_URL"
STOPPING = 10.0
ROOM = 2 * 1024**3
# Test data need not survive a crash of the machine.
SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "max_prepared_transactions": "16",
    "shared_buffers": "64MB",
    "autovacuum": "on",
}


def name_the_run() -> None:
    os.environ[RUN] = uuid4().hex[:8]
    os.environ[HOME] = str(roomy_folder() / f"leasehold-test-{os.environ[RUN]}")


@contextmanager
def databases(schema: str = "leasehold") -> Iterator[ClonedDatabases]:
    """Yields the run's databases. An embedded server runs while some process of the run is in this block."""
    run, home = os.environ[RUN], Path(os.environ[HOME])
    if url := os.environ.get(URL):
        home.mkdir(exist_ok=True)
        (home / f"{schema}.template").touch()  # for `clear_up`, which drops it
        yield engine_for(url, schema).test_kit().databases(run)
        return
    Settings.from_environment().require_embedded(URL)
    with embedded.postgres(home, settings=SETTINGS) as server:
        yield engine_for(server.url, schema).test_kit().databases(run, server.url_for)


def clear_up() -> None:
    """Removes everything of a run that has ended."""
    home = Path(os.environ[HOME])
    if not home.exists():
        return
    if url := os.environ.get(URL):
        for made in home.glob("*.template"):
            run_in_thread(engine_for(url, made.stem).test_kit().databases(os.environ[RUN]).drop_template())
    _wait_until_stopped(home)
    shutil.rmtree(home, ignore_errors=True)


def run_in_thread(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine on a loop in a thread of its own, and waits: the caller's thread may have a running loop."""
    with ThreadPoolExecutor(1, "leasehold-testing") as thread:
        return thread.submit(asyncio.run, work).result()


def roomy_folder() -> Path:
    """Returns a folder in memory, if there is room: a clone takes 13 ms there, and 72 ms on a disk.

    Not pytest's own folder, which is closed to the account that Postgres runs under when we are root.
    """
    memory = Path("/dev/shm")
    if memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > ROOM:
        return memory
    return Path(tempfile.gettempdir())


def _wait_until_stopped(home: Path) -> None:
    """Waits for the embedded server, which stops by itself once it is unused; its files are in use until then."""
    deadline = time.monotonic() + STOPPING
    while any(home.rglob("postmaster.pid")) and time.monotonic() < deadline:
        time.sleep(0.05)
