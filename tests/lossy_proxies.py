"""Ways to a test's database on which notifications get lost: a proxy that drops them, and a real pooler."""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.conftest import eventually

NOTIFICATION = b"A"
POOLER_STARTS = 5


@asynccontextmanager
async def without_notifications(database_url: str) -> AsyncIterator[str]:
    """The URL of a proxy through which no notification comes."""
    target = urlsplit(database_url)
    given = parse_qs(target.query)
    pumps: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if folder := given.get("host"):
            there = await asyncio.open_unix_connection(f"{folder[0]}/.s.PGSQL.{given.get('port', ['5432'])[0]}")
        else:
            there = await asyncio.open_connection(target.hostname, target.port or 5432)
        pumps.add(asyncio.create_task(_everything(reader, there[1])))
        pumps.add(asyncio.create_task(_all_but_notifications(there[0], writer)))

    server = await asyncio.start_server(accept, "127.0.0.1")
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"postgresql://{target.netloc.rpartition('@')[0] or 'leasehold'}@127.0.0.1:{port}{target.path}"
    finally:
        server.close()
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)


@asynccontextmanager
async def through_a_pooler(
    database_url: str, mode: str = "transaction", *, size: int = 4, ignores: Sequence[str] = ()
) -> AsyncIterator[str]:
    """The URL of a real pgbouncer with `size` sessions; startup settings that it `ignores` are accepted unread."""
    if not (program := shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")):
        pytest.skip("pgbouncer is not installed (apt-get install pgbouncer); a proxy without notifications stands in")
    folder = _configured(database_url, mode, size, ignores)
    target = urlsplit(database_url)
    as_whom = ["-u", "postgres"] if os.geteuid() == 0 else []
    pooler = asyncio.create_task(_keep_running([program, "-q", *as_whom, str(folder / "ini")], folder / "log"))
    try:
        await eventually(partial(_accepts, folder / ".s.PGSQL.6432"), what="pgbouncer's socket")
        yield f"postgresql://{target.username}@{target.path}?host={folder}&port=6432"
    finally:
        pooler.cancel()
        with suppress(asyncio.CancelledError):
            await pooler
        shutil.rmtree(folder, ignore_errors=True)


async def _keep_running(command: Sequence[str], log: Path) -> None:
    """Starts pgbouncer again when it ends, as systemd does: 1.18 ended by itself in one of five fault runs."""
    for _ in range(POOLER_STARTS):
        process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            await process.wait()
        except asyncio.CancelledError:
            process.terminate()
            await process.wait()
            raise
        sys.stdout.write(f"pgbouncer ended with {process.returncode}:\n{_last_lines(log)}\n")


def _last_lines(log: Path) -> str:
    return "\n".join(log.read_text().splitlines()[-3:]) if log.exists() else "without a log"


async def _accepts(unix_socket: Path) -> bool:
    """Whether a server listens on it: the file is there a moment before."""
    try:
        _, writer = await asyncio.open_unix_connection(unix_socket)
    except OSError:
        return False
    writer.close()
    return True


async def _all_but_notifications(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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


def _configured(database_url: str, mode: str, size: int, ignores: Sequence[str]) -> Path:
    """A folder with what pgbouncer has to know; open to the account that it runs under when we are root."""
    target = urlsplit(database_url)
    given = parse_qs(target.query)
    host, port = given.get("host", [target.hostname])[0], given.get("port", [str(target.port or 5432)])[0]
    folder = Path(tempfile.mkdtemp(prefix="pgb-"))
    folder.chmod(0o777)
    (folder / "users").write_text(f'"{target.username}" "{target.password or ""}"\n')
    (folder / "ini").write_text(
        f"[databases]\n* = host={host} port={port}\n[pgbouncer]\npool_mode = {mode}\nauth_type = trust\n"
        f"auth_file = {folder}/users\nlisten_addr =\nlisten_port = 6432\nunix_socket_dir = {folder}\n"
        f"logfile = {folder}/log\npidfile = {folder}/pid\ndefault_pool_size = {size}\n"
        "server_login_retry = 1\n"
        f"ignore_startup_parameters = {','.join(ignores)}\n"
    )
    return folder
