"""`Leasehold(lifespan=…)`: in a worker of this process, in a tick, and in a worker process."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.app.helpers import ended
from tests.conftest import PATIENCE

from leasehold import InvalidInput, Job, Leasehold
from leasehold.errors import LifespanFailed

OPENED: list[str] = []


@asynccontextmanager
async def lifespan(app: Leasehold) -> AsyncIterator[dict[str, str | None]]:
    OPENED.append("opened")
    yield {"url": app.settings.url}
    OPENED.append("closed")


@pytest.fixture
def living(database_url: str) -> Iterator[Leasehold]:
    OPENED.clear()
    app = Leasehold(database_url, lifespan=lifespan)

    @app.job
    async def tell(job: Job) -> str:
        return str(job.state["url"])

    yield app
    app.close()


async def tell(app: Leasehold) -> Any:
    return await app.tenant("acme").aenqueue_key("tell", {})


async def test_an_open_app_with_a_worker_opens_it_once(living: Leasehold, database_url: str) -> None:
    async with living.open(worker=True):
        for _ in range(2):
            assert (await ended(living, await tell(living))).result == database_url
        assert OPENED == ["opened"]
    assert OPENED == ["opened", "closed"]


async def test_an_open_app_without_a_worker_does_not_open_it(living: Leasehold) -> None:
    async with living.open():
        await tell(living)
    assert OPENED == []


async def test_each_tick_opens_it(living: Leasehold) -> None:
    async with living.open():
        await tell(living)
        assert (await living.atick()).succeeded == 1
        assert (await living.atick()).ran == 0
    assert OPENED == ["opened", "closed"] * 2


async def test_a_failing_start_is_raised_where_the_worker_is_opened(database_url: str) -> None:
    @asynccontextmanager
    async def failing(app: Leasehold) -> AsyncIterator[None]:
        raise ConnectionRefusedError("the cache is away")
        yield

    app = Leasehold(database_url, lifespan=failing)

    @app.job
    async def tell(job: Job) -> None: ...

    with pytest.raises(LifespanFailed, match="the cache is away"):
        async with app.open(worker=True):
            raise AssertionError("it is not open")
    async with app.open():
        with pytest.raises(LifespanFailed, match="the cache is away"):
            await app.atick()


def test_a_generator_that_is_not_a_context_manager_is_refused() -> None:
    async def bare(app: Leasehold) -> AsyncIterator[None]:
        yield

    with pytest.raises(InvalidInput, match=r"lifespan=bare does not return an async context manager"):
        Leasehold(lifespan=bare)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["text", 1])
def test_a_value_that_can_not_be_called_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match="is not a function"):
        Leasehold(lifespan=value)


def test_a_worker_process_whose_lifespan_fails_exits_with_1(database_url: str, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        "from contextlib import asynccontextmanager\n"
        "from leasehold import Job, Leasehold\n\n"
        "@asynccontextmanager\n"
        "async def lifespan(app):\n"
        "    raise ConnectionRefusedError('the cache is away')\n"
        "    yield\n\n"
        "app = Leasehold(lifespan=lifespan)\n\n"
        "@app.job\n"
        "async def tell(job: Job) -> None: ...\n"
    )
    for words in (["worker", "app.py"], ["tick", "app.py"]):
        done = subprocess.run(
            [sys.executable, "-c", "from leasehold.cli import main; main()", *words],
            cwd=tmp_path,
            env=os.environ | {"LEASEHOLD_URL": database_url},
            capture_output=True,
            text=True,
            timeout=PATIENCE.total_seconds(),
        )
        assert done.returncode == 1
        assert "LH-5002: the lifespan of the app failed at its start: ConnectionRefusedError" in done.stderr


# In tests


async def test_an_overridden_state_replaces_the_lifespan(living: Leasehold) -> None:
    with living.override(state={"url": "a fake"}):
        async with living.open(worker=True):
            assert (await ended(living, await tell(living))).result == "a fake"
    assert OPENED == []
    async with living.open(worker=True):
        pass
    assert OPENED == ["opened", "closed"]
