"""Tools of these tests: other client processes, and the processes of a server."""

import asyncio
import json
import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import asyncpg

from leasehold.embedded.guard.plan import Plan
from leasehold.embedded.places import mark_of
from leasehold.embedded.server import wait_until_ready

T = TypeVar("T")
QUICK = {"fsync": "off"}  # these tests kill processes, not machines
SOURCES = Path(__file__).parents[2] / "src"

PROGRAM = """
import json, os, sys
from leasehold import embedded

server = embedded.start(os.environ["TEST_HOME"], settings=json.loads(os.environ["TEST_SETTINGS"]))
print(json.dumps({"url": server.url, "data": str(server.data), "postmaster": server.postmaster_pid()}), flush=True)
if "TEST_STATEMENT" in os.environ:
    import asyncio, asyncpg
    async def run():
        connection = await asyncpg.connect(server.url)
        await connection.execute(os.environ["TEST_STATEMENT"])
    asyncio.run(run())
sys.stdin.read()
"""


def eventually(answer: Callable[[], T], within: float = 30) -> T:
    """Returns the first true answer. The deadline only prevents hanging."""
    deadline = time.monotonic() + within
    while not (given := answer()):
        assert time.monotonic() < deadline, f"did not come true within {within} s, last answer: {given!r}"
        time.sleep(0.01)
    return given


def query(url: str, statement: str, *values: str) -> Any:
    async def run() -> Any:
        connection = await asyncpg.connect(url)
        try:
            return await connection.fetchval(statement, *values)
        finally:
            await connection.close()

    return asyncio.run(run())


def keep(url: str, word: str) -> None:
    """Commits a word that must still be stored at the end of the test."""
    query(url, "create table if not exists kept (word text)")
    query(url, "insert into kept values ($1)", word)


def kept(url: str) -> str | None:
    word: str | None = query(url, "select string_agg(word, ' ' order by word) from kept")
    return word


@dataclass
class Client:
    """Another process that holds a reference to the server of a home."""

    process: "subprocess.Popen[str]"
    url: str = ""
    data: Path = Path()
    postmaster: int = 0

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait_for_server(self) -> None:
        assert self.process.stdout is not None
        said = json.loads(self.process.stdout.readline())
        self.url, self.data, self.postmaster = said["url"], Path(said["data"]), said["postmaster"]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def leave(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait() == 0


@contextmanager
def client_on_its_way(
    home: Path,
    *,
    python: str = sys.executable,
    user: int | None = None,
    statement: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Client]:
    paths = os.pathsep.join([str(SOURCES), os.environ.get("PYTHONPATH", "")])
    variables = {"TEST_HOME": str(home), "TEST_SETTINGS": json.dumps(QUICK), "PYTHONPATH": paths}
    if statement is not None:
        variables["TEST_STATEMENT"] = statement
    with subprocess.Popen(
        [python, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
        env={**os.environ, **variables, **(environment or {})},
        user=user,
        group=None if user is None else pwd.getpwuid(user).pw_gid,
        extra_groups=None if user is None else [],
    ) as process:
        try:
            yield Client(process)
        finally:
            process.kill()


@contextmanager
def client(home: Path, **how: Any) -> Iterator[Client]:
    with client_on_its_way(home, **how) as started:
        started.wait_for_server()
        yield started


def processes_of(home: Path) -> dict[int, str]:
    """Returns the guard, initdb and every postgres process of the server in this folder."""
    title = f"postgres: leasehold-{mark_of(home)}: "
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if f"{home}/" in command or f"{home} " in command or command.startswith(title):
                found[int(entry.name)] = command.strip()
    return found


def plan_of(home: Path) -> Plan:
    """Returns the plan of the server that runs in this home."""
    running = wait_until_ready(home)
    assert running is not None, f"no guard runs in {home}"
    return running[0]


def guard_of(home: Path) -> int:
    [guard] = [pid for pid, command in processes_of(home).items() if "embedded/guard" in command]
    return guard


def no_process_of(home: Path) -> bool:
    return not processes_of(home)


def kill(*pids: int) -> None:
    """Returns when the processes have ended: until then a starting client would still see the killed guard."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: all(is_dead(pid) for pid in pids))


def is_dead(pid: int) -> bool:
    try:
        return Path("/proc", str(pid), "stat").read_text().rpartition(") ")[2][0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True
