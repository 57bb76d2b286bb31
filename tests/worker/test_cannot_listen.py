"""Where LISTEN succeeds and nothing ever arrives, as behind a pooler in transaction mode."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.conftest import eventually
from tests.worker.shop import Doors, Shop, only

from leasehold.engines import open_store
from leasehold.errors import CannotListen
from leasehold.model.status import Status
from leasehold.store import Serves, Store, WorkerFacts
from leasehold.worker import Job

NOTIFICATION = b"A"


async def _without_notifications(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The server's messages, one by one; the answer to the question for TLS is a single byte."""
    with suppress(asyncio.IncompleteReadError, OSError):
        kind = await reader.readexactly(1)
        if kind == b"N":
            writer.write(kind)
            kind = await reader.readexactly(1)
        while True:
            length = await reader.readexactly(4)
            body = await reader.readexactly(int.from_bytes(length, "big") - 4)
            if kind != NOTIFICATION:
                writer.write(kind + length + body)
                await writer.drain()
            kind = await reader.readexactly(1)
    writer.close()


async def _everything(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@pytest.fixture
async def deaf_url(database_url: str) -> AsyncIterator[str]:
    """The way to the test's database on which notifications get lost."""
    target = urlsplit(database_url)
    given = parse_qs(target.query)
    pumps: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if folder := given.get("host"):
            there = await asyncio.open_unix_connection(f"{folder[0]}/.s.PGSQL.{given.get('port', ['5432'])[0]}")
        else:
            there = await asyncio.open_connection(target.hostname, target.port or 5432)
        pumps.add(asyncio.create_task(_everything(reader, there[1])))
        pumps.add(asyncio.create_task(_without_notifications(there[0], writer)))

    server = await asyncio.start_server(accept, "127.0.0.1")
    port = server.sockets[0].getsockname()[1]
    yield f"postgresql://{target.username or 'leasehold'}@127.0.0.1:{port}{target.path}"
    server.close()
    for pump in pumps:
        pump.cancel()
    await asyncio.gather(*pumps, return_exceptions=True)


async def test_a_listener_finds_out_by_itself_that_nothing_arrives(deaf_url: str, store: Store) -> None:
    deaf = await open_store(deaf_url, schema="leasehold")
    try:
        seat = await deaf.join(Serves(("report",)), WorkerFacts("host", 1), timedelta(hours=1))
        with pytest.raises(CannotListen, match=r"LH-3002: .*no job is lost"):
            await anext(deaf.wakes(seat))
    finally:
        await deaf.close()


async def test_a_worker_that_can_not_listen_says_so_once_and_polls(
    deaf_url: str, shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    async def report(job: Job, payload: object) -> None: ...

    def said() -> list[str]:
        return [entry.getMessage() for entry in caplog.records if "LH-3002" in entry.getMessage()]

    async def said_so() -> bool:
        return bool(said())

    deaf = Doors(deaf_url)
    with caplog.at_level(logging.WARNING, "leasehold.worker"):
        async with shop.working(only(report), deaf, fallback=timedelta(milliseconds=100)):
            for _ in range(3):
                assert (await shop.ended(await shop.enqueue())).status is Status.SUCCEEDED
            await eventually(said_so, what="a word about it")
            assert (await shop.ended(await shop.enqueue())).status is Status.SUCCEEDED
    assert len(said()) == 1
