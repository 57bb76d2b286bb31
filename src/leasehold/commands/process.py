"""Runs a program under a guard, until nothing of its process tree is alive."""

import asyncio
import errno
import logging
import marshal
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leasehold.commands.folders import WorkingFolder
from leasehold.commands.orphans import kill_marked
from leasehold.commands.output import Output
from leasehold.model.process import KeptOutput, ProcessEnd

log = logging.getLogger("leasehold.worker")

CHUNK = 64 * 1024
MOST_AT_THE_END = 64
"""Chunks that are read after the tree's end. A pipe holds at most 1 MB."""
GUARD_ENDS_WITHIN = 2.0
MEMORY_UNIT = 1 if sys.platform == "darwin" else 1024

Limit = tuple[str, int, int]

_START_GUARD = (
    *(sys.executable, "-I", "-S", "-X", "utf8", "-c"),
    "import sys; sys.path.append(sys.argv.pop(1)); from guard import main; main()",
    str(Path(__file__).parent),
)

# Errors of an exec that a later try meets again: no such program, no permission, not a program, arguments too long.
_FINAL = frozenset({errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.ENOTDIR, errno.ELOOP, errno.E2BIG})


@dataclass(frozen=True, slots=True)
class Program:
    """A program to run: its exact argv and environment, resource limits, and seconds from SIGTERM to SIGKILL.

    `mark` names a variable of the environment whose value no other run has.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    limits: Sequence[Limit] = ()
    grace: float = 5.0
    mark: str = ""


class NotStarted(Exception):
    """The program was not executed. `final`: it can't be executed later either."""

    def __init__(self, why: str, number: int = 0) -> None:
        self.why = why
        self.final = number in _FINAL
        super().__init__(why)


async def run_process(
    program: Program, folder: WorkingFolder, stdout: Output, stderr: Output, at_once: Callable[[], bool] = bool
) -> ProcessEnd:
    """Runs a program in the folder, which is removed afterwards. Returns when nothing of its tree is alive.

    A cancel does not raise here: it makes the guard stop the tree, by SIGTERM first unless `at_once()`. The answer
    tells whether the program was stopped, or had just ended by itself. Raises NotStarted if it can't be executed.
    """
    process = _Process(program, folder, stdout, stderr)
    try:
        while not process.gone.done():
            try:
                await asyncio.shield(process.gone)
            except asyncio.CancelledError:
                if not process.gone.done():
                    process.stop(at_once=at_once())
        return process.end()
    finally:
        process.close()


class _Process:
    """The worker's side of a guard: its pipes, on the loop."""

    def __init__(self, program: Program, folder: WorkingFolder, stdout: Output, stderr: Output) -> None:
        self._loop = asyncio.get_running_loop()
        self._program = program
        self._folder = folder
        self._outputs: dict[int, Output] = {}
        self._report = b""
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self._launch(program, folder, stdout, stderr)

    def _launch(self, program: Program, folder: WorkingFolder, stdout: Output, stderr: Output) -> None:
        opened: list[int] = []
        try:
            plan = _write_plan(program, folder)
            opened.append(plan)
            control, self._control = _pipe(opened)
            self._stdout, out = _pipe(opened)
            self._stderr, err = _pipe(opened)
            self._reports, report = _pipe(opened)
            self._guard = subprocess.Popen(
                [*_START_GUARD, *map(str, (plan, report, folder.lock))],
                stdin=control,
                stdout=out,
                stderr=err,
                pass_fds=(plan, report, folder.lock),
                env={},
                cwd="/",
                start_new_session=True,
            )
        except BaseException as error:
            for descriptor in opened:
                os.close(descriptor)
            folder.remove()
            folder.release()
            if isinstance(error, OSError):
                raise NotStarted(f"the guard of the command can't be started: {error}") from error
            raise
        for descriptor in (plan, control, out, err, report):
            os.close(descriptor)
        folder.release()
        self._outputs = {self._stdout: stdout, self._stderr: stderr}
        for descriptor in (self._stdout, self._stderr, self._reports):
            os.set_blocking(descriptor, False)
        self._loop.add_reader(self._stdout, self._read_output, self._stdout)
        self._loop.add_reader(self._stderr, self._read_output, self._stderr)
        self._loop.add_reader(self._reports, self._read_report)

    def stop(self, *, at_once: bool) -> None:
        with suppress(OSError):  # the guard has just ended
            os.write(self._control, b"K" if at_once else b"T")

    def end(self) -> ProcessEnd:
        """Returns how the program ended; raises NotStarted if the guard could not execute it."""
        said = dict(line.split(" ", 1) for line in self._report.decode().splitlines())
        leftovers = int(said["gone"]) if "gone" in said else self._kill_orphans()
        stdout, stderr = self._read_rest()
        if "started" not in said:
            number, _, why = said.get("failed", "0 the guard of the command ended before it").partition(" ")
            raise NotStarted(" ".join((why, stderr.tail[-500:])).strip(), int(number))
        if "failed" in said:
            log.error("the guard of a command failed, and has ended its processes: %s", said["failed"])
        known: dict[str, Any] = {"stdout": stdout, "stderr": stderr, "leftovers": leftovers}
        argv, pid = tuple(self._program.argv), int(said["started"])
        if "ended" not in said:  # the guard was killed, and with it, by the kernel, the program
            return ProcessEnd(argv, pid, signal="SIGKILL", **known)
        status, stopped, cpu, memory = said["ended"].split()
        exit_code, ended_by = _read_status(int(status))
        used: dict[str, Any] = {"cpu": float(cpu), "max_memory": int(memory) * MEMORY_UNIT}
        return ProcessEnd(argv, pid, exit_code, ended_by, stopped=stopped == "1", **known, **used)

    def _read_rest(self) -> list[KeptOutput]:
        """Reads what is left in the pipes. Nothing is alive that could write more."""
        for descriptor, output in self._outputs.items():
            for _ in range(MOST_AT_THE_END):
                if not self._read_output(descriptor):
                    break
            output.end()
        return [output.kept() for output in self._outputs.values()]

    def _kill_orphans(self) -> int:
        name = self._program.mark
        return kill_marked(f"{name}={self._program.env[name]}".encode()) if name else 0

    def close(self) -> None:
        """Closes the pipes. If the guard still runs, it takes that for the end of the worker, and kills the tree."""
        for descriptor in (self._stdout, self._stderr, self._reports):
            with suppress(RuntimeError):  # the loop is closed
                self._loop.remove_reader(descriptor)
            os.close(descriptor)
        os.close(self._control)
        with suppress(subprocess.TimeoutExpired):
            self._guard.wait(GUARD_ENDS_WITHIN)
        if self._guard.returncode != 0:
            self._folder.remove()

    def _read_output(self, descriptor: int) -> bool:
        """Reads what there is, at most one chunk. Returns False if there was nothing."""
        try:
            chunk = os.read(descriptor, CHUNK)
        except BlockingIOError:
            return False
        if chunk:
            self._outputs[descriptor].feed(chunk)
            return True
        self._loop.remove_reader(descriptor)
        return False

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


def _write_plan(program: Program, folder: WorkingFolder) -> int:
    """Returns the descriptor of an unnamed file: a pipe might be too small for it, and the worker would wait."""
    plan = {
        "argv": list(program.argv),
        "env": dict(program.env),
        "limits": list(program.limits),
        "grace": program.grace,
        "folder": str(folder.path),
        "lock": str(folder.lock_path),
        "worker": os.getpid(),
    }
    if sys.platform == "linux":
        descriptor = os.memfd_create("leasehold-command")
    else:
        descriptor, path = tempfile.mkstemp()
        os.unlink(path)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(marshal.dumps(plan))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _pipe(opened: list[int]) -> tuple[int, int]:
    ends = os.pipe()
    opened.extend(ends)
    return ends


def _read_status(status: int) -> tuple[int | None, str | None]:
    """Returns the exit code, or the name of the signal."""
    if os.WIFEXITED(status):
        return os.WEXITSTATUS(status), None
    number = os.WTERMSIG(status)
    try:
        return None, signal.Signals(number).name
    except ValueError:
        return None, f"signal {number}"
