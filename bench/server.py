"""The Postgres that is measured on: the embedded one, the oldest of the machine's packages, or one by its URL."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock
from urllib.parse import urlsplit
from uuid import uuid4

import asyncpg

from bench import processor
from bench.systems import CannotMeasure
from leasehold import embedded
from leasehold.embedded.binaries import SYSTEM_FOLDER, VARIABLE, Binaries, is_complete, major_version
from leasehold.errors import EmbeddedError

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

EMBEDDED, SYSTEM = "embedded", "system"
SETTINGS = {
    "shared_preload_libraries": "pg_stat_statements",
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "1GB",
    # No checkpoint in the middle of a measure; one is made before each.
    "max_wal_size": "16GB",
    "checkpoint_timeout": "1h",
    "max_connections": "200",
}
SHOWN = ("fsync", "synchronous_commit", "full_page_writes", "shared_buffers", "max_wal_size", "autovacuum")

COUNTERS = """
    select (select xact_commit from pg_stat_database where datname = $1) as commits,
           pg_current_wal_insert_lsn() - '0/0'::pg_lsn as wal
"""
STATEMENTS = """
    select coalesce(sum(s.calls), 0) from pg_stat_statements s join pg_database d on d.oid = s.dbid
    where d.datname = $1 and s.toplevel
"""
TIMING = """
    select coalesce(sum(s.calls), 0) as calls, coalesce(sum(s.total_exec_time), 0) as total
    from pg_stat_statements s join pg_database d on d.oid = s.dbid
    where d.datname = $1 and s.toplevel and position($2 in s.query) > 0
"""
SLOWEST = """
    select s.query, s.calls, s.total_exec_time as ms, s.rows, s.wal_bytes::float8 as wal
    from pg_stat_statements s join pg_database d on d.oid = s.dbid
    where d.datname = $1 and s.toplevel order by s.total_exec_time desc limit $2
"""


@dataclass(frozen=True)
class Counters:
    """Counters so far: of one database, but WAL and processor time are those of the whole server."""

    statements: float | None
    commits: float
    wal: float
    processor: float | None


@dataclass(frozen=True)
class Timing:
    """How often a statement was run, and the milliseconds that it took in all."""

    calls: int
    total: float

    def since(self, earlier: "Timing") -> "Timing":
        return Timing(self.calls - earlier.calls, self.total - earlier.total)

    @property
    def mean(self) -> float:
        return self.total / max(1, self.calls)


@dataclass
class Server:
    url_for: Callable[[str], str]
    admin: "Connection"
    postmaster: int | None
    counts_statements: bool
    home: Path | None = None
    run: str = field(default_factory=lambda: uuid4().hex[:6])

    @property
    def major(self) -> int:
        return self.admin.get_server_version().major

    async def version(self) -> str:
        return f"PostgreSQL {await self.admin.fetchval('show server_version')}"

    async def settings(self) -> dict[str, str]:
        return {name: await self.admin.fetchval("select current_setting($1)", name) for name in SHOWN}

    async def create(self, name: str, template: str | None = None) -> str:
        """A database of its own; its URL."""
        copied = f' template "{template}"' if template else ""
        if template and self.major >= 15:
            copied += " strategy file_copy"
        await self.admin.execute(f'create database "{name}"{copied}')
        return self.url_for(name)

    async def drop(self, name: str) -> None:
        await self.admin.execute(f'drop database if exists "{name}" with (force)')

    async def checkpoint(self) -> None:
        await self.admin.execute("checkpoint")

    async def counters(self, database: str) -> Counters:
        row = await self.admin.fetchrow(COUNTERS, database)
        assert row is not None
        statements = await self.admin.fetchval(STATEMENTS, database) if self.counts_statements else None
        used = processor.used_by_server(self.postmaster) if self.postmaster else None
        return Counters(
            None if statements is None else float(statements), float(row["commits"]), float(row["wal"]), used
        )

    async def timing(self, database: str, part: str) -> Timing:
        """Of the statements with this part in their text."""
        if not self.counts_statements:
            raise CannotMeasure("the server does not count statements: it needs pg_stat_statements")
        row = await self.admin.fetchrow(TIMING, database, part)
        assert row is not None
        return Timing(int(row["calls"]), float(row["total"]))

    async def forget_statements(self, database: str) -> None:
        if self.counts_statements:
            await self.admin.execute(
                "select pg_stat_statements_reset(0, (select oid from pg_database where datname = $1), 0)", database
            )

    async def slowest(self, database: str, most: int = 10) -> list[asyncpg.Record]:
        return await self.admin.fetch(SLOWEST, database, most) if self.counts_statements else []


def default_server() -> str:
    return os.environ.get("LEASEHOLD_BENCH_URL") or EMBEDDED


@asynccontextmanager
async def running(where: str = EMBEDDED) -> AsyncIterator[Server]:
    """Starts or reaches the server to measure on: `embedded`, `system` or a URL.

    Databases on a server with a URL are dropped; a server that was started here is deleted.
    """
    if where not in (EMBEDDED, SYSTEM):
        async with _connected(lambda name: urlsplit(where)._replace(path=f"/{name}").geturl(), None) as server:
            yield server
        return
    chosen = {} if where == EMBEDDED else {VARIABLE: str(oldest(system_binaries()).folder)}
    with mock.patch.dict(os.environ, chosen):
        async with _started() as server:
            yield server


def system_binaries() -> Iterator[Binaries]:
    """Yields each PostgreSQL of this machine's packages, wherever those put it; never the one of a wheel."""
    folders = list(SYSTEM_FOLDER.glob("*/bin"))
    with suppress(OSError, subprocess.CalledProcessError):
        told = subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True, check=True).stdout
        folders.append(Path(told.strip()))
    if initdb := shutil.which("initdb"):
        folders.append(Path(initdb).resolve().parent)
    for folder in dict.fromkeys(folders):
        if is_complete(folder):
            with suppress(EmbeddedError):
                yield Binaries(folder, major_version(folder))


def oldest(found: Iterator[Binaries]) -> Binaries:
    """Returns the oldest one: what is fast there is fast on newer ones, too."""
    try:
        return min(found, key=lambda each: each.version)
    except ValueError:
        raise CannotMeasure(
            f"no PostgreSQL was found in {SYSTEM_FOLDER}, by pg_config or in PATH. Nothing was measured."
        ) from None


@asynccontextmanager
async def _started() -> AsyncIterator[Server]:
    home = Path(tempfile.gettempdir()) / f"leasehold-bench-{uuid4().hex[:8]}"
    try:
        with embedded.postgres(home, settings=SETTINGS) as started:
            async with _connected(started.url_for, home) as server:
                yield server
    finally:
        shutil.rmtree(home, ignore_errors=True)


@asynccontextmanager
async def _connected(url_for: Callable[[str], str], home: Path | None) -> AsyncIterator[Server]:
    admin = await asyncpg.connect(url_for("postgres"))
    try:
        postmaster = processor.postmaster_of(admin.get_server_pid())
        server = Server(url_for, admin, postmaster, await _can_count_statements(admin), home)
        yield server
        left = await admin.fetch("select datname from pg_database where datname like $1", f"bench_{server.run}_%")
        for (name,) in left:
            await server.drop(name)
    finally:
        await admin.close()


async def _can_count_statements(admin: "Connection") -> bool:
    try:
        await admin.execute("create extension if not exists pg_stat_statements")
        await admin.fetchval("select count(*) from pg_stat_statements")
    except asyncpg.PostgresError:
        return False
    return True
