"""Runs real programs under a guard, and looks for what they leave."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from textwrap import dedent
from typing import Any
from uuid import uuid4

from tests.conftest import eventually
from tests.model.claims import a_claim

from leasehold.commands import Program, run_process
from leasehold.commands.folders import make_folder, parent_folder
from leasehold.commands.lease import LeaseFile
from leasehold.commands.output import Output
from leasehold.commands.process import Limit
from leasehold.model.job import Claim, LineKind
from leasehold.model.process import ProcessEnd
from leasehold.model.redaction import Redactor

SOON = timedelta(seconds=2)
MARK = "JOB_FENCE"

Line = tuple[LineKind, str, float | None]


@dataclass
class Lines:
    """Takes lines as a job's log does: at most `room`, until the test makes more."""

    room: float = float("inf")
    kept: list[Line] = field(default_factory=list)
    dropped: int = 0
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def append(self, text: str, kind: LineKind, progress: float | None) -> bool:
        if len(self.kept) >= self.room:
            self.dropped += 1
            return False
        self.kept.append((kind, text, progress))
        self.arrived.set()
        return True

    def drop(self, count: int) -> None:
        self.dropped += count

    @property
    def texts(self) -> list[str]:
        return [text for _, text, _ in self.kept]


class Run:
    """A program that runs. `mark` stands in the environment of all of its processes."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        grace: float = 5.0,
        limits: Sequence[Limit] = (),
        env: Mapping[str, str] | None = None,
        room: float = float("inf"),
        at_once: Callable[[], bool] = bool,
        lease: LeaseFile | None = None,
    ) -> None:
        self.mark = uuid4().hex
        self._pipes: list[int] = []
        self.lines = Lines(room)
        environment = {"PATH": os.environ["PATH"], MARK: self.mark, **(env or {})}
        mark = f"{MARK}={self.mark}".encode()
        self.folder = make_folder(mark)
        redactor = Redactor()
        out, err = (Output(self.lines, kind, redactor.stream()) for kind in (LineKind.STDOUT, LineKind.STDERR))
        program = Program(argv, environment, limits, grace, mark, None if lease is None else lease.descriptor)
        self.task = asyncio.create_task(run_process(program, self.folder, out, err, at_once))

    async def until(self, text: str) -> None:
        """Waits for a line of the program."""
        while text not in self.lines.texts:
            self.lines.arrived.clear()
            if self.task.done():
                raise AssertionError(f"it has ended without {text!r}: {self.task.result()}")
            await asyncio.wait(
                [self.task, asyncio.create_task(self.lines.arrived.wait())], return_when=asyncio.FIRST_COMPLETED
            )

    async def end(self) -> ProcessEnd:
        try:
            return await self.task
        finally:
            while self._pipes:
                os.close(self._pipes.pop())

    def stop(self) -> None:
        self.task.cancel()

    def go_on(self) -> None:
        """Writes a line to the pipe `go`, which the program has made in its folder before it wrote its own line."""
        descriptor = os.open(self.folder.path / "go", os.O_RDWR)  # does not wait for a reader
        os.write(descriptor, b"go\n")
        self._pipes.append(descriptor)  # kept open, or the line would be lost with the pipe

    @property
    def alive(self) -> list[str]:
        return marked(self.mark)

    async def nothing_is_alive(self) -> None:
        async def condition() -> bool:
            return not self.alive

        await eventually(condition, SOON, f"the end of {self.alive}")


def python(text: str) -> list[str]:
    """The argv of a Python program."""
    return [sys.executable, "-I", "-S", "-c", dedent(text)]


def shell(text: str) -> list[str]:
    return ["/bin/sh", "-c", text]


async def run(argv: Sequence[str], **options: Any) -> tuple[ProcessEnd, Lines]:
    """Runs a program to its end; nothing of it may be alive then."""
    started = Run(argv, **options)
    end = await started.end()
    assert not started.alive
    assert not started.folder.path.exists()
    return end, started.lines


def marked(mark: str) -> list[str]:
    """The command lines of the living processes with this mark."""
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):
            folder = Path("/proc", pid)
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


def folders() -> list[str]:
    return sorted(path.name for path in parent_folder().iterdir())


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def guards(worker: int | None = None) -> list[int]:
    """The pids of the guards that a worker has started; by default, this process."""
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError, ValueError):
            stat = Path("/proc", pid, "stat").read_text(errors="replace")
            command = Path("/proc", pid, "cmdline").read_bytes()
            if int(stat.rpartition(")")[2].split()[1]) == (worker or os.getpid()) and b"from guard" in command:
                found.append(int(pid))
    return found


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def memory() -> int:
    """Resets the peak, and returns the memory of this process in bytes."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def peak_memory() -> int:
    return _status("VmHWM")


def _status(name: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024


class FakeJob:
    """A job as a command's handler sees it, without a worker."""

    def __init__(self, claim: Claim | None = None, room: float = float("inf")) -> None:
        self._claim = claim or a_claim()
        self._redactor = Redactor()
        self._stops_at_once = False
        self._process: ProcessEnd | None = None
        self._lease: Callable[[], int] | None = None
        self.lines = Lines(room)
        self._append_line: Callable[[Claim, str, LineKind, float | None], bool] = self._append
        self._drop_lines: Callable[[Claim, int], None] = self._drop

    @property
    def process(self) -> ProcessEnd:
        """The process that ran; there must have been one."""
        assert self._process is not None
        return self._process

    @property
    def started(self) -> bool:
        return self._process is not None

    def hide(self, value: str) -> None:
        self._redactor = self._redactor.with_values(value)

    def lose_lease(self) -> None:
        self._stops_at_once = True

    def _append(self, claim: Claim, text: str, kind: LineKind, progress: float | None) -> bool:
        return self.lines.append(text, kind, progress)

    def _drop(self, claim: Claim, count: int) -> None:
        self.lines.drop(count)
