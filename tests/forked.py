"""Commands in processes of their own, forked from a Python that has imported Leasehold.

A new Python takes half a second of processor time until it has imported the command line; a fork takes milliseconds.
A forked command has its own folder, environment, streams and exit code, and ends as any Python does. Tests of the
start itself, of signals and of commands that go on start a new Python instead.
"""

import gc
import json
import os
import runpy
import select
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

Run = Callable[[Sequence[str], Path, Mapping[str, str], float], "subprocess.CompletedProcess[str]"]
"""Runs `leasehold …` or `python FILE …` to its end in a folder, with an environment and a time limit."""

CONTROL = 3
"""The descriptor for pids and exit codes: the standard streams belong to the commands."""


class ForkedPython:
    """Runs commands one after the other."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Starts the Python that is forked; modules read `environment` while they are imported."""
        here, there = os.pipe()
        self._replies = here
        program = f"import os; os.dup2({there}, {CONTROL}); from tests.forked import main; main()"
        root = str(Path(__file__).parents[1])
        self._python = subprocess.Popen(
            [sys.executable, "-c", program],
            env={**environment, "PYTHONPATH": os.pathsep.join(filter(None, (root, environment.get("PYTHONPATH"))))},
            stdin=subprocess.PIPE,
            pass_fds=[there],
        )
        os.close(there)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._python.stdin is not None
        self._python.stdin.close()
        os.close(self._replies)
        assert self._python.wait(timeout=10) == 0

    def run(
        self, words: Sequence[str], folder: Path, environment: Mapping[str, str], timeout: float
    ) -> "subprocess.CompletedProcess[str]":
        """Runs `leasehold …` or `python FILE …` to its end."""
        with TemporaryDirectory() as streams:
            out, err = Path(streams, "out"), Path(streams, "err")
            request = {"words": words, "folder": str(folder), "environment": dict(environment)}
            assert self._python.stdin is not None
            self._python.stdin.write(json.dumps({**request, "out": str(out), "err": str(err)}).encode() + b"\n")
            self._python.stdin.flush()
            pid = self._reply(timeout)
            try:
                code = self._reply(timeout)
            except TimeoutError:
                os.kill(pid, 9)
                self._reply(timeout)
                raise subprocess.TimeoutExpired(list(words), timeout, out.read_bytes(), err.read_bytes()) from None
            return subprocess.CompletedProcess(list(words), code, out.read_text(), err.read_text())

    def _reply(self, timeout: float) -> int:
        """Reads a number, which is written as one line."""
        line = b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([self._replies], [], [], timeout)
            if not ready:
                raise TimeoutError
            line += (read := os.read(self._replies, 1))
            assert read, "the Python that is forked has ended"
        return int(line)


def main() -> None:
    """Imports the command line, and runs each command of standard input in a fork."""
    from leasehold.cli import main as leasehold
    from leasehold.engines import DEFAULT_URL, engine_for

    engine_for(DEFAULT_URL)
    gc.freeze()  # a collection would write to all pages, which are shared until then
    sys.path[0] = ""  # scripts and apps are found in the folder of their command
    while line := _read_line():
        request = json.loads(line)
        if (pid := os.fork()) == 0:
            _become(request, leasehold)
            return
        _tell(pid)
        _tell(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _become(request: Mapping[str, Any], leasehold: Callable[[], None]) -> None:
    """Runs the command in this process, which ends after it."""
    os.close(CONTROL)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for descriptor, path in ((0, os.devnull), (1, request["out"]), (2, request["err"])):
        opened = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.dup2(opened, descriptor)
        os.close(opened)
    program, *arguments = request["words"]
    if program == "leasehold":
        sys.argv = ["-c", *arguments]
        leasehold()
    else:
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")


def _read_line() -> bytes:
    """Reads a line without a buffer, which forks would share."""
    line = b""
    while not line.endswith(b"\n") and (read := os.read(0, 1)):
        line += read
    return line


def _tell(number: int) -> None:
    os.write(CONTROL, f"{number}\n".encode())
