"""Runs a program under a guard, until nothing of its process tree is alive."""

import asyncio
import errno
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from leasehold.commands.folders import WorkingFolder
from leasehold.commands.guarded import CHUNK, Guarded, Plan, close_all, make_pipe
from leasehold.commands.output import Output
from leasehold.model.process import KeptOutput, ProcessEnd

log = logging.getLogger("leasehold.worker")

MOST_AT_THE_END = 64
"""Chunks that are read after the tree's end. A pipe holds at most 1 MB."""
LONG_RUN = 10.0
MEMORY_UNIT = 1 if sys.platform == "darwin" else 1024

Limit = tuple[str, int, int]

# Errors of an exec that a later try meets again: no such program, no permission, not a program, arguments too long.
_FINAL = frozenset({errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.ENOTDIR, errno.ELOOP, errno.E2BIG})


@dataclass(frozen=True, slots=True)
class Program:
    """A program to run: its exact argv and environment, resource limits, and seconds from SIGTERM to SIGKILL.

    `mark` is a `NAME=value` of the environment that no other run has. `lease` is the descriptor of a `LeaseFile`: the
    program is killed when that lease is over.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    limits: Sequence[Limit] = ()
    grace: float = 5.0
    mark: bytes = b""
    lease: int | None = None


class NotStarted(Exception):
    """The program was not executed. `final`: it can't be executed later either."""

    def __init__(self, why: str, number: int = 0) -> None:
        self.why = why
        self.final = number in _FINAL
        super().__init__(why)


async def run_process(
    program: Program,
    folder: WorkingFolder,
    stdout: Output,
    stderr: Output,
    at_once: Callable[[], bool] = bool,
    on_long_run: Callable[[int], object] = bool,
) -> ProcessEnd:
    """Runs a program in the folder, which is removed afterwards. Returns when nothing of its tree is alive.

    A cancel does not raise here: it makes the guard stop the tree, by SIGTERM first unless `at_once()`. The answer
    tells whether the program was stopped, or had just ended by itself. Raises NotStarted if it can't be executed.
    Calls `on_long_run` with the pid of a program that has run for a while.
    """
    process = _Process(program, folder, stdout, stderr, on_long_run)
    try:
        gone = process.guarded.gone
        while not gone.done():
            try:
                await asyncio.shield(gone)
            except asyncio.CancelledError:
                if not gone.done():
                    process.stop(at_once=at_once())
        return await process.end()
    finally:
        process.close()


class _Process:
    """The output of a program below a guard, on the loop."""

    def __init__(
        self,
        program: Program,
        folder: WorkingFolder,
        stdout: Output,
        stderr: Output,
        on_long_run: Callable[[int], object],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_long_run = on_long_run
        self._program = program
        opened: list[int] = []
        try:
            self._stdout, out = make_pipe(opened)
            self._stderr, err = make_pipe(opened)
            self.guarded = Guarded(_plan(program, folder), out, err)
        except BaseException as error:
            close_all(opened)
            folder.remove()
            folder.release()
            if isinstance(error, OSError):
                raise NotStarted(f"the guard of the command can't be started: {error}") from error
            raise
        close_all([out, err])
        folder.release()
        self._outputs = {self._stdout: stdout, self._stderr: stderr}
        for descriptor in self._outputs:
            os.set_blocking(descriptor, False)
            self._loop.add_reader(descriptor, self._read_output, descriptor)
        self._noting = self._loop.call_later(LONG_RUN, self._note_long_run)

    def _note_long_run(self) -> None:
        if (pid := self.guarded.pid) is None:
            self._noting = self._loop.call_later(LONG_RUN, self._note_long_run)
        else:
            self._on_long_run(pid)

    def stop(self, *, at_once: bool) -> None:
        if at_once:
            self.guarded.kill()
        else:
            self.guarded.terminate()

    async def end(self) -> ProcessEnd:
        """Returns how the program ended; raises NotStarted if the guard could not execute it."""
        said = self.guarded.said
        leftovers = await self.guarded.reap()
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
        status, stopped, memory = said["ended"].split()
        exit_code, ended_by = _read_status(int(status))
        used: dict[str, Any] = {"cpu": self.guarded.cpu, "max_memory": int(memory) * MEMORY_UNIT}
        return ProcessEnd(argv, pid, exit_code, ended_by, stopped=stopped == "1", **known, **used)

    def _read_rest(self) -> list[KeptOutput]:
        """Reads what is left in the pipes. Nothing is alive that could write more."""
        for descriptor, output in self._outputs.items():
            for _ in range(MOST_AT_THE_END):
                if not self._read_output(descriptor):
                    break
            output.end()
        return [output.kept() for output in self._outputs.values()]

    def close(self) -> None:
        """Closes the pipes. If the guard still runs, it takes that for the end of the worker, and kills the tree."""
        self._noting.cancel()
        self.guarded.close()
        for descriptor in self._outputs:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.remove_reader(descriptor)
            os.close(descriptor)

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


def _plan(program: Program, folder: WorkingFolder) -> Plan:
    return Plan(
        *(program.argv, program.env, program.limits, program.grace),
        folder=str(folder.path),
        lock=str(folder.lock_path),
        held=(folder.lock,),
        mark=program.mark,
        lease=program.lease,
    )


def _read_status(status: int) -> tuple[int | None, str | None]:
    """Returns the exit code, or the name of the signal."""
    if os.WIFEXITED(status):
        return os.WEXITSTATUS(status), None
    number = os.WTERMSIG(status)
    try:
        return None, signal.Signals(number).name
    except ValueError:
        return None, f"signal {number}"
