"""A real database for every test.

One server for the whole run (`LEASEHOLD_TEST_URL`, else an embedded Postgres that all xdist workers share), one
template database with the schema, and a clone of it for each test that asks:

    database_url   the URL of a fresh database that has the schema; dropped afterwards
    store          an open store on it; closed afterwards
    clock          `await clock.move(timedelta)` moves that database's clock, which is the engine's only one
    observer       a connection that only looks
    proxy          a way to the database that a test can cut
    new_cluster    the data of an embedded Postgres of its own, to be copied: initdb takes seconds
    prepared_home  the home of such a Postgres, not started yet, in an empty folder
    run_forked     runs a command in a process of its own, which need not import Leasehold

A test that leaves a connection behind fails. Tests never sleep: they move the clock, wait for an event, or ask
`await eventually(condition)`, which is imported: `from tests.conftest import eventually`.
"""

import asyncio
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import timedelta
from importlib.metadata import entry_points
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
import pytest
from hypothesis import Phase, settings
from tests.admin_link import AdminLink
from tests.database_server import DatabaseServer
from tests.emulated_tables import note_emulator, tables_at
from tests.forked import ForkedPython, Run
from tests.proxy import Proxy
from tests.reused_databases import ReusedDatabases

from leasehold import embedded
from leasehold.embedded.places import remove_lost_homes
from leasehold.engine import ClonedDatabases
from leasehold.engines import engine_for
from leasehold.engines.dynamodb.emulator import emulator
from leasehold.engines.postgres.test_databases import DatabaseClock, TemplateDatabases
from leasehold.store import Store
from leasehold.testing import server
from leasehold.testing.server import HOME, RUN, URL, roomy_folder, run_in_thread

# An installed package registers the plugin; loading it twice would be an error.
OURS = [] if entry_points(group="pytest11", name="leasehold") else ["leasehold.testing.plugin"]
pytest_plugins = ["pytester", *OURS]

if TYPE_CHECKING:
    Raw = asyncpg.Connection[asyncpg.Record]
else:
    Raw = asyncpg.Connection
PATIENCE = timedelta(seconds=60)
Clock = DatabaseClock
INHABITED = "b"
"""Ends the name of a run in the names of the databases that tests/store uses, which have a template of their own."""
# Its databases take half a minute to fill: one worker of xdist runs the whole module.
TOGETHER = "tests/postgres/test_plans.py"
# They share one server and one browser: another worker of xdist runs all of them.
BROWSER = "tests/console/"
FAULTS = "tests/faults/"
# Their tests ask for nothing but rows; a database whose schema, or rights in it, were changed is dropped. Others look
# at plans, statistics, dead rows and locks.
REUSING = ("tests/app/", "tests/cli/")
# Their tests start programs and processes, as users do, and take seconds each: `make test-programs` runs them.
PROGRAMS = tuple(
    f"tests/{name}"
    for name in (
        "api/test_generated_client.py",
        "api/test_metrics_port.py",
        "api/test_schemathesis.py",
        "api/test_server_processes.py",
        "api/test_workers_over_http.py",
        "app/test_secret_canaries.py",
        "bench/",
        "both_engines/test_processes.py",
        "both_engines/test_usage.py",
        "cli/test_commands.py",
        "cli/test_dev.py",
        "cli/test_dev_",
        "cli/test_log_formats.py",
        "cli/test_processes.py",
        "cli/test_psql.py",
        "cli/test_top_terminal.py",
        "cli/test_without_url.py",
        "cli/test_worker.py",
        "deploy/test_connections.py",
        "deploy/test_image.py",
        "deploy/test_programs.py",
        "deploy/test_prometheus.py",
        "django/test_migrations.py",
        "django/test_project.py",
        "docs/test_architecture.py",
        "docs/test_docs.py",
        "docs/test_scripts.py",
        "dynamodb/test_neutral_suite.py",
        "dynamodb/test_plugin.py",
        "embedded/",
        "examples/",
        "scheduler/test_processes.py",
        "store/test_killed_operations.py",
        "telemetry/test_closing.py",
        "testing/",
        "worker/test_fence.py",
        "worker/test_handler_transaction_in_processes.py",
        "worker/test_isolation",
        "worker/test_killed_worker.py",
        "worker/test_processor_time.py",
        "worker/test_shutdown.py",
        "worker/test_status_of_processes.py",
        "worker/test_upkeep.py",
    )
)


# Without `explain`: it traces every line of a run, which makes the state machines several times as slow.
settings.register_profile("suite", phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.target, Phase.shrink])


def pytest_configure() -> None:
    """Keeps bytecode, also in further processes: without it, each of hundreds would compile all modules."""
    settings.load_profile("suite")
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out files that `-m` deselects as a whole: each process of xdist would take seconds to import them."""
    if not collection_path.match("test_*.py"):
        return None
    chosen: str = config.option.markexpr
    name = collection_path.relative_to(config.rootpath).as_posix()
    is_program = name.startswith((BROWSER, *PROGRAMS))
    is_left_out = is_program if "not programs" in chosen else chosen.startswith("programs") and not is_program
    return True if is_left_out or ("not faults" in chosen and name.startswith(FAULTS)) else None


def pytest_itemcollected(item: pytest.Item) -> None:
    if item.nodeid.startswith((BROWSER, *PROGRAMS)):
        item.add_marker("programs")


def pytest_unconfigure(config: pytest.Config) -> None:
    if (url := os.environ.get(URL)) and not hasattr(config, "workerinput"):
        run_in_thread(engine_for(url).test_kit().databases(f"{os.environ[RUN]}{INHABITED}").drop_template())


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts slow tests first into the share that each worker of xdist begins with, so that short ones end the run.

    With `--dist worksteal`, a worker that has no tests left takes those at the end of another one's share.
    """
    shares = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    together = [item for item in items if item.nodeid.startswith(TOGETHER)]
    slow = [item for item in items if item.nodeid.startswith(PROGRAMS)]
    browser = [item for item in items if item.nodeid.startswith(BROWSER)]
    others = iter([item for item in items if not item.nodeid.startswith((TOGETHER, BROWSER, *PROGRAMS))])
    ordered: list[pytest.Item] = []
    for number in range(shares):
        size = (len(items) - len(ordered)) // (shares - number)
        shared = [*(together if number == 0 else ()), *(browser if number == shares - 1 else ())]
        begin = [*shared, *slow[number::shares]]
        ordered += [*begin, *islice(others, max(0, size - len(begin)))]
    items[:] = [*ordered, *others]


async def eventually(
    condition: Callable[[], Awaitable[bool]], within: timedelta = PATIENCE, what: str = "the condition"
) -> None:
    """Returns as soon as `condition` holds. The deadline is a guard against hanging, never a measure of speed."""
    deadline = time.monotonic() + within.total_seconds()
    while not await condition():
        if time.monotonic() > deadline:
            pytest.fail(f"{what} did not come true within {within.total_seconds():g} s")
        await asyncio.sleep(0.01)


def copy_cluster(cluster: Path, home: Path) -> None:
    """Copies the data with its owner, which is not root."""
    subprocess.run(["cp", "-a", cluster, home / "pgdata"], check=True)


@pytest.fixture(scope="session")
def database_server() -> Iterator[DatabaseServer]:
    """The run's server, with its template database."""
    with server.databases() as found:
        assert isinstance(found, TemplateDatabases)
        link = AdminLink(found.url, found.schema)
        made = DatabaseServer(found.url, found.run, found.schema, found.url_of, link)
        asyncio.run(made.make_template())
        yield made
        link.close()


@pytest.fixture(scope="session")
def reused_databases(database_server: DatabaseServer) -> Iterator[ReusedDatabases]:
    """Databases of the same template for tests that ask for nothing but rows."""
    known = database_server
    reused = ReusedDatabases(known.url, known.run, known.schema, known.url_of, known.link)
    yield reused
    run_in_thread(reused.drop_free())


@pytest.fixture(scope="session")
def new_cluster(database_server: DatabaseServer) -> Path:
    """The data of a server that was started once and stopped. The first process of the run that asks makes it."""
    home = Path(os.environ[HOME], "new-cluster")
    with open(f"{home}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "made").exists():
            embedded.start(home, settings={"fsync": "off"}).stop()
            (home / "made").touch()
    return home / "pgdata"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Not tmp_path: if root runs the tests, pytest's folders are closed to the account that runs postgres."""
    with tempfile.TemporaryDirectory(prefix="leasehold-", dir=roomy_folder()) as name:
        folder = Path(name).resolve()
        folder.chmod(0o755)
        yield folder


@pytest.fixture
def prepared_home(open_folder: Path, new_cluster: Path) -> Path:
    """The folder `.leasehold` of an otherwise empty one, with the data of a new server."""
    home = open_folder / ".leasehold"
    home.mkdir()
    copy_cluster(new_cluster, home)
    return home


@pytest.fixture(scope="session")
def run_forked() -> Iterator[Run]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LEASEHOLD_")}
    with ForkedPython(environment) as python:
        yield python.run


@pytest.fixture(scope="session", autouse=True)
def homes_removed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Removes the data of embedded servers whose homes are in pytest's folders: root's is elsewhere."""
    yield
    temporary = Path(tempfile.gettempdir())
    for place in temporary.glob("leasehold-home-*"):
        owner = place / "belongs-to"
        if owner.exists() and Path(owner.read_text().strip()).is_relative_to(tmp_path_factory.getbasetemp()):
            shutil.rmtree(place, ignore_errors=True)
    remove_lost_homes(temporary)


@pytest.fixture(scope="session")
def dynamodb_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A DynamoDB for the tests of this process: an emulator, or the one of LEASEHOLD_TEST_DYNAMODB_URL."""
    if url := os.environ.get("LEASEHOLD_TEST_DYNAMODB_URL"):
        yield url
        return
    with emulator(tmp_path_factory.mktemp("dynamodb"), keep=False) as server:
        note_emulator(server.url)
        yield server.url


def make_tables(url: str) -> ClonedDatabases:
    """Tables with one shard, since each costs a request for each look, and without an allowance for clock skew."""
    return tables_at(f"{url}&shards=1&skew=0")


@pytest.fixture(scope="session")
def table_server(dynamodb_url: str) -> ClonedDatabases:
    return make_tables(dynamodb_url)


@pytest.fixture
def databases(request: pytest.FixtureRequest) -> ClonedDatabases:
    reuses = request.node.nodeid.startswith(REUSING)
    found: ClonedDatabases = request.getfixturevalue("reused_databases" if reuses else "database_server")
    return found


@pytest.fixture
async def database_url(databases: ClonedDatabases) -> AsyncIterator[str]:
    """The URL of a fresh database with the schema and a movable clock. A test that leaves a connection open fails."""
    name = await databases.clone()
    yield databases.url_for(name)
    await databases.drop(name)


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    """An open store on this test's database."""
    opened = await engine_for(database_url).open()
    yield opened
    await opened.close()


@pytest.fixture
def clock(database_url: str, databases: ClonedDatabases) -> Clock:
    """`await clock.move(timedelta(hours=1))` moves the clock of this test's database, and so of its store."""
    clock = Clock(database_url)
    return databases.clock_of(clock) if isinstance(databases, ReusedDatabases) else clock


@pytest.fixture
async def observer(database_url: str) -> AsyncIterator[Raw]:
    """A connection that only looks."""
    connection: Raw = await asyncpg.connect(database_url, server_settings={"application_name": "test"})
    yield connection
    await connection.close(timeout=5)


@pytest.fixture
async def proxy(database_url: str) -> AsyncIterator[Proxy]:
    """A way to this test's database that the test can cut, delay or heal."""
    async with Proxy(database_url).open() as opened:
        yield opened
