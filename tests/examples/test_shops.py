"""One example for each driver and framework: an order and its job are committed together, or not at all.

The process is killed with kill -9 between its insert and its commit: the network lets everything through but that.
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import httpx
import pytest
from tests.conftest import eventually
from tests.proxy import Proxy
from tests.worker.shop import Process

from leasehold.store import Store

EXAMPLES = Path(__file__).parents[2] / "examples"
PLACE_ORDER = """
from django.test import RequestFactory
from shop.views import place_order
place_order(RequestFactory().post("/", {"item": "lamp"}), shop="acme")
"""
COMMANDS = {
    "asyncpg_shop": ["shop.py", "acme", "lamp"],
    "psycopg_shop": ["shop.py", "acme", "lamp"],
    "sqlalchemy_shop": ["shop.py", "acme", "lamp"],
    "django_shop": ["manage.py", "shell", "--verbosity", "0", "--command", PLACE_ORDER],
}
WORKERS = {
    "django_shop": ["manage.py", "leasehold", "worker"],
}
WORKER = ["-c", "from leasehold.cli import main; main()", "worker", "shop.py"]
# The statements as each driver or ORM writes them.
INSERTS = {"django_shop": b'INSERT INTO "shop_order"', "sqlalchemy_shop": b"INSERT INTO orders"}
COMMITS = {"asyncpg_shop": b"COMMIT;"}


@dataclass
class Example:
    """An example under examples/, run as its README says."""

    name: str
    folder: Path
    started: list[Process]

    def run(self, url: str, *arguments: str) -> Process:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LEASEHOLD_")}
        log = self.folder / f"process-{len(self.started)}.log"
        process = Process(
            [sys.executable, *arguments],
            {**kept, "LEASEHOLD_URL": url, "DATABASE_URL": url, "PYTHONUNBUFFERED": "1"},
            log,
            folder=EXAMPLES / self.name,
        )
        self.started.append(process)
        return process

    async def must(self, url: str, *arguments: str) -> str:
        process = self.run(url, *arguments)
        assert await process.code() == 0, process.said
        return process.said

    @property
    def orders(self) -> str:
        return "shop_order" if self.name == "django_shop" else "orders"


@pytest.fixture(params=[*COMMANDS])
async def example(request: pytest.FixtureRequest, tmp_path: Path, database_url: str) -> AsyncIterator[Example]:
    example = Example(request.param, tmp_path, [])
    if example.name == "django_shop":
        await example.must(database_url, "manage.py", "migrate", "--verbosity", "0")
    yield example
    for process in example.started:
        await process.clear_up()


@pytest.fixture
async def web_shop(tmp_path: Path, database_url: str) -> AsyncIterator[Example]:
    example = Example("fastapi_shop", tmp_path, [])
    yield example
    for process in example.started:
        await process.clear_up()


async def counted(url: str, example: Example) -> tuple[int, int]:
    """Returns the numbers of orders and of jobs."""
    connection = await asyncpg.connect(url)
    try:
        orders = 0
        if await connection.fetchval("select to_regclass($1)", example.orders):
            orders = await connection.fetchval(f"select count(*) from {example.orders}")  # noqa: S608
        return orders, await connection.fetchval("select count(*) from leasehold.job_records")
    finally:
        await connection.close()


async def test_an_order_and_its_job_are_committed_together_and_the_job_runs(
    example: Example, database_url: str, store: Store
) -> None:
    await example.must(database_url, *COMMANDS[example.name])
    assert await counted(database_url, example) == (1, 1)
    worker = example.run(database_url, *WORKERS.get(example.name, WORKER))

    async def done() -> bool:
        return (await succeeded(database_url)) == 1

    await eventually(done, what=f"the receipt ({worker.said})")
    worker.send(signal.SIGTERM)
    assert await worker.code() == 0


async def test_a_kill_before_the_commit_leaves_neither_order_nor_job(example: Example, database_url: str) -> None:
    await example.must(database_url, *COMMANDS[example.name])
    before = await counted(database_url, example)
    async with Proxy(database_url).open() as network:
        insert = INSERTS.get(example.name, b"insert into orders")
        network.stop(COMMITS.get(example.name, b"COMMIT"), having_sent=insert)
        process = example.run(network.url, *COMMANDS[example.name])
        async with asyncio.timeout(60):
            await network.stopped.wait()
        process.send(signal.SIGKILL)
        await process.code()
    assert before == (1, 1)
    assert await counted(database_url, example) == before


async def test_the_web_shop_runs_the_jobs_of_its_orders_in_one_process(web_shop: Example, database_url: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = web_shop.run(database_url, "-m", "uvicorn", "shop:web", "--host", "127.0.0.1", "--port", str(port))
    await server.says("Application startup complete")
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as web:
        placed = (await web.post("/shops/acme/orders", json={"item": "lamp"})).json()

        async def done() -> bool:
            return bool((await web.get(f"/shops/acme/jobs/{placed['job']}")).json()["status"] == "succeeded")

        await eventually(done, what=f"the receipt ({server.said})")
        assert (await web.get(f"/shops/acme/jobs/{placed['job']}")).json()["result"] == f"receipt {placed['order']}"
    assert await counted(database_url, web_shop) == (1, 1)
    server.send(signal.SIGTERM)
    await server.code()


async def test_the_web_shop_killed_before_the_commit_leaves_neither(web_shop: Example, database_url: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with Proxy(database_url).open() as network:
        server = web_shop.run(network.url, "-m", "uvicorn", "shop:web", "--host", "127.0.0.1", "--port", str(port))
        await server.says("Application startup complete")
        network.stop(b"COMMIT;", having_sent=b"INSERT INTO orders")
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as web:
            order = asyncio.create_task(web.post("/shops/acme/orders", json={"item": "lamp"}))
            async with asyncio.timeout(60):
                await network.stopped.wait()
            server.send(signal.SIGKILL)
            with pytest.raises(httpx.HTTPError):
                await order
        await server.code()
    assert await counted(database_url, web_shop) == (0, 0)


async def succeeded(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        return int(await connection.fetchval("select count(*) from leasehold.jobs_done where status = 'succeeded'"))
    finally:
        await connection.close()
