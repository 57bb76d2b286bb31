"""The plugin in a pytest of its own, as users have it."""

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from textwrap import dedent

import asyncpg
import pytest
from tests.database_server import DatabaseServer

ROOT = os.path.abspath("src")
# In a fresh installation pytest finds the plugin by itself, and twice would be an error.
PLUGIN = [] if entry_points(group="pytest11", name="leasehold") else ["-p", "leasehold.testing.plugin"]
APP = """
from leasehold import Job, Leasehold

app = Leasehold("postgresql://nowhere.invalid/production")

@app.job
def greet(job: Job, name: str) -> str:
    return f"hello {name}"
"""

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, database_server: DatabaseServer, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a test file beside an app, on databases of its own on this run's server."""
    monkeypatch.setenv("LEASEHOLD_TEST_URL", database_server.url)
    monkeypatch.setenv("PYTHONPATH", ROOT)
    pytester.makepyfile(shop=APP)

    def run(test: str, *options: str, ini: str = 'leasehold_app = "shop:app"') -> pytest.RunResult:
        pytester.makepyprojecttoml(f'[tool.pytest.ini_options]\npythonpath = ["."]\n{ini}\n')
        pytester.makepyfile(test_it=dedent(test))
        return pytester.runpytest_subprocess(*PLUGIN, "-p", "no:schemathesis", "-p", "no:cacheprovider", *options)

    return run


def test_a_configured_app_is_tested_on_its_own_database(run: Run) -> None:
    run(
        """
        import os
        from shop import app, greet

        def test_one(leasehold):
            app.tenant("acme").enqueue(greet, "Ada")
            assert leasehold.assert_enqueued(greet, payload={"name": "Ada"}).tenant == "acme"
            assert os.environ["LEASEHOLD_URL"] == app.settings.url == leasehold.url

        def test_two(leasehold):
            leasehold.assert_none()

        def test_afterwards_the_app_is_as_it_was():
            assert app.settings.url == "postgresql://nowhere.invalid/production"
            assert "LEASEHOLD_URL" not in os.environ
        """
    ).assert_outcomes(passed=3)


def test_a_fixture_may_provide_an_app_with_its_own_schema(run: Run) -> None:
    run(
        """
        import pytest
        from leasehold import Job, Leasehold

        app = Leasehold(schema="jobs")

        @app.job
        def greet(job: Job) -> None: ...

        @pytest.fixture
        def leasehold_app():
            return app

        def test_it(leasehold, leasehold_worker):
            placed = app.tenant("acme").enqueue(greet)
            assert leasehold.wait_for(placed).status == "succeeded"
        """,
        ini="",
    ).assert_outcomes(passed=1)


def test_the_template_may_have_tables_of_the_user(run: Run) -> None:
    run(
        """
        import asyncio
        import asyncpg
        import pytest

        @pytest.fixture(scope="session")
        def leasehold_template():
            async def add_tables(url):
                connection = await asyncpg.connect(url)
                await connection.execute("create table orders (id int)")
                await connection.close()
            return add_tables

        def test_it(leasehold):
            async def count():
                connection = await asyncpg.connect(leasehold.url)
                try:
                    return await connection.fetchval("select count(*) from orders")
                finally:
                    await connection.close()
            assert asyncio.run(count()) == 0
        """
    ).assert_outcomes(passed=1)


def test_a_whole_suite_may_be_inline(run: Run) -> None:
    run(
        """
        from shop import app, greet

        def test_it(leasehold):
            app.tenant("acme").enqueue(greet, "Ada")
            assert leasehold.job().result == "hello Ada"
        """,
        ini='leasehold_app = "shop:app"\nleasehold_inline = true',
    ).assert_outcomes(passed=1)


def test_processes_of_xdist_share_the_server_and_no_database(run: Run) -> None:
    run(
        """
        import pytest
        from shop import app, greet

        @pytest.mark.parametrize("number", range(6))
        def test_it(leasehold, number):
            leasehold.assert_none()
            app.tenant("acme").enqueue(greet, str(number))
            leasehold.drain()
            assert leasehold.job().result == f"hello {number}"
        """,
        "-n",
        "2",
    ).assert_outcomes(passed=6)


async def test_a_run_leaves_no_database_behind(
    run: Run, pytester: pytest.Pytester, database_server: DatabaseServer
) -> None:
    async def names() -> set[str]:
        connection = await asyncpg.connect(database_server.url)
        try:
            return {row[0] for row in await connection.fetch("select datname from pg_database")}
        finally:
            await connection.close()

    run(
        """
        import os, pathlib

        def test_it(leasehold):
            assert os.environ["LEASEHOLD_TEST_RUN"] in leasehold.url
            pathlib.Path("run").write_text(os.environ["LEASEHOLD_TEST_RUN"])
        """
    ).assert_outcomes(passed=1)
    name_of_the_run = (pytester.path / "run").read_text()
    assert [name for name in await names() if name_of_the_run in name] == []


def test_a_failure_shows_the_near_miss_at_the_users_line(run: Run) -> None:
    result = run(
        """
        from shop import app, greet

        def test_it(leasehold):
            app.tenant("acme").enqueue(greet, "Ada")
            leasehold.assert_enqueued(greet, payload={"name": "Grace"})
        """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            '>       leasehold.assert_enqueued(greet, payload={"name": "Grace"})',
            'E       AssertionError: no job was enqueued of greet with payload {"name":"Grace"}.',
            '*#1  greet*acme*ready*{"name":"Ada"}',
            '*payload.name  expected "Grace"  was "Ada"',
            "test_it.py:5: AssertionError",
        ]
    )
    result.stdout.no_fnmatch_line("*rehearsal.py*")


@pytest.mark.parametrize(
    ("ini", "said"),
    [
        ("", "*LH-1000: pytest does not know which app to test.*"),
        ('leasehold_app = "shopp:app"', "*LH-5001: leasehold_app = 'shopp:app' can't be imported (ModuleNotFound*"),
        ('leasehold_app = "shop:greet"', "*LH-1000: leasehold_app = 'shop:greet' is a TypedDefinition and no app.*"),
    ],
)
def test_without_an_app_it_says_what_to_do(run: Run, ini: str, said: str) -> None:
    result = run("def test_it(leasehold): ...", ini=ini)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([said])


def test_the_app_of_a_django_project_is_refused_at_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEHOLD_TEST_URL", "postgresql://127.0.0.1:1/nowhere")
    result = run(
        """
        from django.conf import settings
        settings.configure()
        from leasehold.django import app
        import pytest

        @pytest.fixture
        def leasehold_app():
            return app

        def test_it(leasehold): ...
        """
    )
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*LH-1000: the fixture leasehold can't test a Django project's app*"])


def test_an_app_that_is_open_already_is_not_taken_to_another_database(run: Run) -> None:
    result = run(
        """
        import asyncio
        import pytest
        from shop import app

        @pytest.fixture
        def opened(leasehold):
            app.configure(url=leasehold.url)
            loop = asyncio.new_event_loop()
            opened = app.open()
            loop.run_until_complete(opened.__aenter__())
            yield leasehold
            loop.run_until_complete(opened.__aexit__(None, None, None))
            loop.close()

        def test_it(opened, request):
            with pytest.raises(Exception, match="the app is open"), app.override(url="postgresql://elsewhere/x"):
                pass
        """
    )
    result.assert_outcomes(passed=1)


def test_where_no_test_asks_for_it_nothing_is_started(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEHOLD_TEST_URL", "postgresql://127.0.0.1:1/nowhere")
    run("def test_it(): ...").assert_outcomes(passed=1)


def test_leasehold_itself_needs_neither_pytest_nor_this_room() -> None:
    code = (
        "import sys; import leasehold, leasehold.cli\n"
        "assert not {'pytest', 'leasehold.testing'} & set(sys.modules)\n"
        "import leasehold.testing\n"
        "assert 'pytest' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": ROOT}, timeout=60)
