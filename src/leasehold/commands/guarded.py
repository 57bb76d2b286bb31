"""The worker's side of a guard: starts it, sends its requests, and hears its reports on the loop."""

import asyncio
import marshal
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from leasehold.commands.folder_removal import remove_folder
from leasehold.commands.orphans import kill_marked

T = TypeVar("T")

CHUNK = 64 * 1024
GUARD_ENDS_WITHIN = 2.0

_START = (
    *(sys.executable, "-I", "-S", "-X", "utf8", "-c"),
    "import sys; sys.path.append(sys.argv.pop(1)); from guard import main; main()",
    str(Path(__file__).parent),
)


@dataclass(frozen=True, slots=True)
class Plan:
    """A program for a guard: see guard.py. `mark` is a `NAME=value` of its environment that no other one has."""

    argv: Sequence[str]
    env: Mapping[str, str] | Mapping[bytes, bytes]
    limits: Sequence[tuple[str, int, int]] = ()
    grace: float = 5.0
    folder: str | None = None
    lock: str | None = None
    held: Sequence[int] = ()
    passed: Sequence[int] = ()
    lease: int | None = None
    mark: bytes = b""

    @property
    def kept(self) -> Sequence[int]:
        """The descriptors that the guard keeps for itself."""
        return self.held if self.lease is None else (*self.held, self.lease)

    def as_bytes(self) -> bytes:
        return marshal.dumps(
            {
                "argv": list(self.argv),
                "env": dict(self.env),
                "limits": list(self.limits),
                "grace": self.grace,
                "folder": self.folder,
                "lock": self.lock,
                "held": list(self.kept),
                "passed": list(self.passed),
                "lease": self.lease,
                "worker": os.getpid(),
            }
        )


class Guarded:
    """A program below a guard. `gone` is done when the guard has ended, and with it all that the program started.

    `pid` is that of the program; None before it is executed.
    """

    def __init__(self, plan: Plan, stdout: int | None = None, stderr: int | None = None) -> None:
        """Starts the guard. Raises OSError if the system refuses to."""
        self._loop = asyncio.get_running_loop()
        self._plan = plan
        self._report = b""
        self.gone: asyncio.Future[None] = self._loop.create_future()
        opened: list[int] = []
        try:
            file = make_unnamed_file(plan.as_bytes())
            opened.append(file)
            control, self._control = make_pipe(opened)
            self._reports, report = make_pipe(opened)
            self._guard = subprocess.Popen(
                [*_START, str(file), str(report)],
                stdin=control,
                stdout=stdout,
                stderr=stderr,
                pass_fds=(file, report, *plan.kept, *plan.passed),
                env={},
                cwd=None if plan.folder is None else "/",
                start_new_session=True,
            )
        except BaseException:
            close_all(opened)
            raise
        close_all([file, control, report])
        os.set_blocking(self._reports, False)
        self._loop.add_reader(self._reports, self._read_report)

    @property
    def said(self) -> dict[str, str]:
        """The guard's reports, by their first word."""
        lines = self._report.decode(errors="replace").splitlines()
        return {word: rest for word, _, rest in (line.partition(" ") for line in lines)}

    @property
    def pid(self) -> int | None:
        return int(self.said["started"]) if "started" in self.said else None

    @property
    def cpu(self) -> float | None:
        """Seconds of processor time of all that has run below the guard; None before its end, or if it was killed."""
        _, _, cpu = self.said.get("gone", "").partition(" ")
        return float(cpu) if cpu else None

    def terminate(self) -> None:
        """Sends SIGTERM to all processes of the program, and SIGKILL after the grace."""
        self._ask(b"T")

    def kill(self) -> None:
        self._ask(b"K")

    def _ask(self, request: bytes) -> None:
        if self._control >= 0:
            with suppress(OSError):  # the guard has just ended
                os.write(self._control, request)

    async def reap(self) -> int:
        """Reaps the guard once it is gone. Returns how many processes outlived the program, and had to be ended.

        If the guard was killed, does its work. That may take long, so it is done in a thread; a cancel does not
        interrupt it.
        """
        if self._guard.poll() is None:
            await in_thread(self._wait_for_guard)
        self.close()
        said = self.said
        if self._guard.returncode == 0 and ("gone" in said or "failed" in said):
            return int(said.get("gone", "0").split()[0])
        return await in_thread(self._clean_up)

    def _clean_up(self) -> int:
        plan = self._plan
        killed = kill_marked(plan.mark) if plan.mark else 0
        with suppress(OSError):  # a later worker on this host tries again
            if plan.folder is not None:
                remove_folder(plan.folder)
            if plan.lock is not None:
                os.unlink(plan.lock)
        return killed

    def _wait_for_guard(self) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._guard.wait(GUARD_ENDS_WITHIN)

    def close(self) -> None:
        """Closes the pipes. If the guard still runs, it takes that for the end of the worker, and kills the tree."""
        if self._control < 0:
            return
        with suppress(RuntimeError):  # the loop is closed
            self._loop.remove_reader(self._reports)
        close_all([self._reports, self._control])
        self._control = -1

    def _read_report(self) -> None:
        try:
            said = os.read(self._reports, CHUNK)
        except BlockingIOError:
            return
        self._report += said
        if not said:
            self._loop.remove_reader(self._reports)
            if not self.gone.done():
                self.gone.set_result(None)


async def in_thread(call: Callable[[], T]) -> T:
    """Calls in a thread, so that the loop goes on, and returns the answer even if it is canceled meanwhile."""
    try:
        answer = asyncio.ensure_future(asyncio.to_thread(call))
        while not answer.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([answer])
        return answer.result()
    except RuntimeError:  # the system has refused the thread
        return call()


def make_pipe(opened: list[int]) -> tuple[int, int]:
    ends = os.pipe()
    opened.extend(ends)
    return ends


def close_all(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def make_unnamed_file(content: bytes) -> int:
    """Returns the descriptor of an unnamed file: a pipe might be too small for it, and the worker would wait."""
    if sys.platform == "linux":
        descriptor = os.memfd_create("leasehold-plan")
    else:
        descriptor, path = tempfile.mkstemp()
        os.unlink(path)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
