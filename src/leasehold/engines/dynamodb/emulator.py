"""A DynamoDB on this machine, for tests and for `leasehold dev`: ministack, in a process of its own.

    with emulator(".leasehold/dynamodb") as server:
        engine = engine_for(server.url)

All processes that name the same home share one emulator. It listens on the loopback address only, and ends with the
last process that uses it, even by kill -9. It keeps its data in memory and writes it to the home when it ends; if the
emulator itself is killed, everything since its start is lost. It is a tool for development and never a database.
"""

import fcntl
import http.client
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote, urlsplit

from leasehold.errors import EmbeddedError

REGION = "us-east-1"
START_LIMIT = 60.0
STOP_LIMIT = 30.0
PROGRAM = str(Path(__file__).with_name("emulator_process.py"))
# Credentials of the user's account never reach the emulator.
PASSED_ON = ("HOME", "LANG", "PATH", "TMPDIR")


@dataclass
class Emulator:
    """A reference to the running emulator of one home. It runs while any process holds a reference."""

    home: Path
    endpoint: str
    pid: int
    _reference: int | None

    @property
    def url(self) -> str:
        """The URL of the table `leasehold` in it."""
        return self.url_for("leasehold")

    @property
    def description(self) -> str:
        return f"DynamoDB emulator, started for you at {self.url}, data in {self.home}/ when it ends"

    def url_for(self, table: str) -> str:
        return f"dynamodb://{quote(table, safe='')}?region={REGION}&endpoint={self.endpoint}"

    def stop(self) -> None:
        """Releases the reference; a second call does nothing. Waits for the end if it was the last reference."""
        if self._reference is None:
            return
        os.close(self._reference)
        self._reference = None
        deadline = time.monotonic() + STOP_LIMIT
        while _is_served(self.home) and not _is_used(self.home) and time.monotonic() < deadline:
            time.sleep(0.02)


def start_in(home: Path) -> Emulator:
    """Returns the emulator that a project uses for development, beside other files of its home."""
    return start(home / "dynamodb")


@contextmanager
def emulator(home: Path | str, *, keep: bool = True) -> Iterator[Emulator]:
    """Calls `start()` on entry and `stop()` on exit."""
    server = start(home, keep=keep)
    try:
        yield server
    finally:
        server.stop()


def start(home: Path | str, *, keep: bool = True) -> Emulator:
    """Returns a reference to the emulator of `home`; starts it if necessary. `keep`: its data outlive its end.

    Raises EmbeddedError with the fix; then nothing runs.
    """
    _require_ministack()
    home = Path(home).expanduser().absolute()
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        starting = _lock(home / "start.lock", fcntl.LOCK_EX, "another process that starts it")
        try:
            reference = _lock(home / "clients.lock", fcntl.LOCK_SH, "the last one to stop")
            try:
                return Emulator(home, *_join_or_launch(home, keep), reference)
            except BaseException:
                os.close(reference)
                raise
        finally:
            os.close(starting)
    except OSError as problem:
        raise EmbeddedError(
            f"The DynamoDB emulator of {home} can't be started: {problem}.",
            fix="Choose a home that this user can write to. Nothing was changed.",
        ) from problem


def _require_ministack() -> None:
    if sys.platform == "win32":
        raise EmbeddedError(
            "The DynamoDB emulator does not run on Windows: it needs flock.",
            fix="Use WSL, or the URL of a table and LEASEHOLD_URL. Nothing was changed.",
        )
    if find_spec("ministack") is None:
        raise EmbeddedError(
            "The DynamoDB emulator is not installed.",
            fix="Run: pip install 'leasehold[emulator]', or set LEASEHOLD_URL to the URL of a table. Nothing was "
            "changed.",
        )


def _join_or_launch(home: Path, keep: bool) -> tuple[str, int]:
    with suppress(OSError, ValueError, http.client.HTTPException):
        if _is_served(home) or _launch(home, keep):
            found = json.loads((home / "server.json").read_text())
            if _answers(found["endpoint"]):
                return found["endpoint"], found["pid"]
    raise EmbeddedError(
        f"The DynamoDB emulator of {home} ended while it started, or did not answer within {START_LIMIT:.0f} s.",
        fix=f"Read {home / 'emulator.log'}, then start it again. Nothing was changed.",
    )


def _launch(home: Path, keep: bool) -> bool:
    """Starts the process, which detaches itself. Returns whether it listens."""
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    with (
        open(home / "emulator.log", "wb") as log,
        subprocess.Popen(
            [sys.executable, "-I", PROGRAM, str(home), "keep" if keep else "forget"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
            cwd=home,
            start_new_session=True,  # Ctrl-C ends its clients first
        ) as process,
    ):
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], START_LIMIT)
        return bool(ready) and bool(process.stdout.readline())


def _answers(endpoint: str) -> bool:
    address = urlsplit(endpoint)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=START_LIMIT)
    try:
        connection.request("GET", "/_ministack/health")
        return connection.getresponse().status == 200
    finally:
        connection.close()


def _lock(path: Path, kind: int, whom: str) -> int:
    """Takes a lock within the limit for a start. It ends with the descriptor, and so with this process."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    deadline = time.monotonic() + START_LIMIT
    while not _try_lock(descriptor, kind):
        if time.monotonic() > deadline:
            os.close(descriptor)
            raise EmbeddedError(
                f"Waited {START_LIMIT:.0f} s for {whom}: {path} is locked.",
                fix=f"Read {path.with_name('emulator.log')} for the reason. Nothing was changed.",
            )
        time.sleep(0.01)
    return descriptor


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_served(home: Path) -> bool:
    """Returns whether a process of an emulator runs for this home."""
    return _is_locked(home / "server.lock", fcntl.LOCK_SH)


def _is_used(home: Path) -> bool:
    """Returns whether another client holds a reference; the emulator that stops holds the exclusive lock."""
    return _is_locked(home / "clients.lock", fcntl.LOCK_EX) and not _is_locked(home / "clients.lock", fcntl.LOCK_SH)


def _is_locked(path: Path, against: int) -> bool:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        return not _try_lock(descriptor, against)
    finally:
        os.close(descriptor)
