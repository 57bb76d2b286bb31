"""The pytest plugin. pytest finds it by itself where Leasehold is installed.

leasehold_app     your app; override it, or set `leasehold_app = "shop.app:app"` in pytest's configuration
leasehold         the app on a database of this test's own: a QueueTester
leasehold_worker  a worker for it in a process of its own: a WorkerProcess
leasehold_template  override it to put your own tables into the database that each test gets a copy of
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from inspect import iscoroutinefunction
from pkgutil import resolve_name
from typing import Any

import pytest

from leasehold.app import Leasehold
from leasehold.engine import ClonedDatabases
from leasehold.errors import CannotLoad, InvalidInput
from leasehold.testing import server
from leasehold.testing.process import WorkerProcess
from leasehold.testing.queue_tester import QueueTester

Template = Callable[[str], Any] | None
# Ignore connections that the user has left open.
AT_ONCE = timedelta()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("leasehold_app", "the Leasehold app under test, as in shop.app:app", default="")
    parser.addini("leasehold_inline", "whether an enqueue runs its job at once", type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "leasehold_inline: an enqueue runs its job at once, and raises what it raises")
    if not hasattr(config, "workerinput"):
        server.name_the_run()


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        server.clear_up()


@pytest.fixture
def leasehold_app(request: pytest.FixtureRequest) -> Leasehold:
    target = request.config.getini("leasehold_app")
    if not target:
        raise InvalidInput(
            "pytest does not know which app to test. Nothing was started.",
            fix='Set leasehold_app = "shop.app:app" in its configuration, or write a fixture of that name that '
            "returns it.",
        )
    try:
        app = resolve_name(target)
    except (ImportError, AttributeError, ValueError) as error:
        raise CannotLoad(
            f"leasehold_app = {target!r} can't be imported ({type(error).__name__}: {error}). Nothing was started.",
            fix="Write module:name, and check that pytest can import it: its option pythonpath says from where.",
        ) from error
    if not isinstance(app, Leasehold):
        raise InvalidInput(
            f"leasehold_app = {target!r} is a {type(app).__name__} and no app. Nothing was started.",
            fix="Name the global that is a Leasehold().",
        )
    return app


@pytest.fixture(scope="session")
def leasehold_template() -> Template:
    """Called once, with the URL of the database that all others are copies of; it may be a coroutine function."""
    return None


@pytest.fixture(scope="session")
def _leasehold_databases(
    leasehold_template: Template,
) -> Iterator[Callable[[str], ClonedDatabases]]:
    """Databases by schema. The server that the first one started serves all of them."""
    with ExitStack() as running:
        known: dict[str, ClonedDatabases] = {}

        def of(schema: str) -> ClonedDatabases:
            if schema not in known:
                found = running.enter_context(server.databases(schema))
                server.run_in_thread(found.make_template(partial(_add_more, leasehold_template)))
                known[schema] = found
            return known[schema]

        yield of


@pytest.fixture
def leasehold(
    request: pytest.FixtureRequest,
    leasehold_app: Leasehold,
    _leasehold_databases: Callable[[str], ClonedDatabases],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[QueueTester]:
    _require_own_connections(leasehold_app)
    databases = _leasehold_databases(leasehold_app.settings.schema)
    name = server.run_in_thread(databases.clone())
    url = databases.url_for(name)
    monkeypatch.setenv("LEASEHOLD_URL", url)
    try:
        with leasehold_app.override(url=url):
            rehearsal = QueueTester(leasehold_app, url, request.config.getini("leasehold_app") or None)
            try:
                if _is_inline(request):
                    with rehearsal.inline():
                        yield rehearsal
                else:
                    yield rehearsal
            finally:
                rehearsal.close()
    finally:
        server.run_in_thread(databases.drop(name, patience=AT_ONCE))


@pytest.fixture
def leasehold_worker(leasehold: QueueTester) -> Iterator[WorkerProcess]:
    with leasehold.worker() as process:
        yield process


def _require_own_connections(app: Leasehold) -> None:
    if app.uses_callers_connections:
        raise InvalidInput(
            "the fixture leasehold can't test a Django project's app: it enqueues on Django's own connections, and "
            "its jobs would not be in the fixture's database. Nothing was started.",
            fix="Use Django's TestCase, or pytest-django: jobs are in the test database of the alias. "
            "See docs/how-to/django.md.",
        )


async def _add_more(template: Template, url: str) -> None:
    if iscoroutinefunction(template):
        await template(url)
    elif template is not None:
        await asyncio.to_thread(template, url)


def _is_inline(request: pytest.FixtureRequest) -> bool:
    return request.node.get_closest_marker("leasehold_inline") is not None or bool(
        request.config.getini("leasehold_inline")
    )
