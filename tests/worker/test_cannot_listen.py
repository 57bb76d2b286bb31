"""Where LISTEN succeeds and nothing ever arrives, as behind a pooler in transaction mode."""

import asyncio
import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.conftest import eventually
from tests.worker.shop import ACME, Doors, Shop, only

from leasehold.engines import open_store
from leasehold.errors import CannotListen
from leasehold.model.definition import Definition
from leasehold.model.job import NewJob
from leasehold.model.status import Status
from leasehold.store import Serves, Store, Wake, WorkerFacts
from leasehold.worker import Job, Worker

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


def _configured(database_url: str) -> Path:
    """A folder with what pgbouncer has to know; open to the account that it runs under when we are root."""
    target = urlsplit(database_url)
    given = parse_qs(target.query)
    host, port = given.get("host", [target.hostname])[0], given.get("port", [str(target.port or 5432)])[0]
    folder = Path(tempfile.mkdtemp(prefix="pgb-"))
    folder.chmod(0o777)
    (folder / "users").write_text(f'"{target.username}" ""\n')
    (folder / "ini").write_text(
        f"[databases]\n* = host={host} port={port}\n[pgbouncer]\npool_mode = transaction\nauth_type = trust\n"
        f"auth_file = {folder}/users\nlisten_addr =\nlisten_port = 6432\nunix_socket_dir = {folder}\n"
        f"logfile = {folder}/log\npidfile = {folder}/pid\ndefault_pool_size = 4\n"
    )
    return folder


@pytest.fixture
async def pooled_url(database_url: str) -> AsyncIterator[str]:
    """The way through a real pgbouncer in transaction mode."""
    if not (program := shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")):
        pytest.skip("there is no pgbouncer here (apt-get install pgbouncer); a proxy without notifications stands in")
    folder = _configured(database_url)
    target = urlsplit(database_url)
    as_whom = ["-u", "postgres"] if os.geteuid() == 0 else []
    running = await asyncio.create_subprocess_exec(
        program, "-q", *as_whom, str(folder / "ini"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    await eventually(partial(asyncio.to_thread, (folder / ".s.PGSQL.6432").exists), what="pgbouncer's socket")
    yield f"postgresql://{target.username}@{target.path}?host={folder}&port=6432"
    running.terminate()
    await running.wait()
    shutil.rmtree(folder, ignore_errors=True)


async def test_a_worker_behind_a_pooler_in_transaction_mode_works_on(pooled_url: str, shop: Shop) -> None:
    async def report(job: Job, payload: object) -> None:
        job.log("said through the pooler")

    pooled = Doors(pooled_url)
    async with shop.working(only(report), pooled, fallback=timedelta(milliseconds=100)):
        jobs = await shop.enqueue_many(50)
        assert {record.status for record in await shop.all_ended(jobs)} == {Status.SUCCEEDED}
    assert [line.text for line in await shop.lines(jobs[0])] == ["said through the pooler"]


async def test_producers_may_be_pooled(pooled_url: str, store: Store, shop: Shop) -> None:
    await store.sync_definitions([Definition("report")])
    pooled = await open_store(pooled_url, schema="leasehold")
    try:
        door = pooled.tenant(ACME)
        await asyncio.gather(*(door.enqueue([NewJob(definition="report")]) for _ in range(40)))
        assert (await door.counts(100))[Status.QUEUED] == 40
    finally:
        await pooled.close()


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


async def test_a_worker_that_could_not_listen_tries_again(
    deaf_url: str, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def report(job: Job, payload: object) -> None: ...

    monkeypatch.setattr("leasehold.worker.tenure.LISTEN_AGAIN", 0.05)
    mended = False

    def while_deaf(wakes: Callable[..., AsyncGenerator[Wake, None]]) -> Callable[..., AsyncGenerator[Wake, None]]:
        async def instead(*arguments: object) -> AsyncGenerator[Wake, None]:
            if not mended:
                raise CannotListen("nothing arrives.", fix="")
            async for wake in wakes(*arguments):
                yield wake

        return instead

    shop.doors.step_in("wakes", while_deaf)
    async with shop.working(only(report), fallback=timedelta(milliseconds=100)) as worker:
        assert (await shop.ended(await shop.enqueue())).status is Status.SUCCEEDED
        assert worker._tenure is not None
        assert not worker._tenure._listens
        mended = True
        await shop.at_rest(worker)
        await eventually(partial(_listens, worker), what="a worker that listens")


async def _listens(worker: Worker) -> bool:
    return worker._tenure is not None and worker._tenure._listens
