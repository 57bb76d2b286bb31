"""Runs a worker in a process of its own, as in production: a test can kill it, pause it and wait for it."""

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from types import ModuleType
from typing import Any

import orjson

from leasehold.app import Leasehold
from leasehold.errors import InvalidInput
from leasehold.model.job import JobId, job_id

PATIENCE = 60.0
KEPT_OUTPUT = 200
_WORKER = "from leasehold.cli import main; main()"


class WorkerProcess:
    """`leasehold worker` for the app of a test, on the test's database. It ends with the test at the latest.

    The process imports the app itself: patches and injected errors of the test have no effect there.
    """

    def __init__(self, target: str, url: str, schema: str, *options: str) -> None:
        self._command = [sys.executable, "-c", _WORKER, "worker", target, "--json", "--until-stdin-ends", *options]
        here = {"LEASEHOLD_URL": url, "LEASEHOLD_SCHEMA": schema, "PYTHONPATH": os.pathsep.join(sys.path)}
        self._environment = os.environ | here
        self._process: subprocess.Popen[bytes] | None = None
        self._events: list[dict[str, Any]] = []
        self._said: deque[str] = deque(maxlen=KEPT_OUTPUT)
        self._news = threading.Condition()
        self._readers: list[threading.Thread] = []

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events so far, as `leasehold worker --json` prints them."""
        return list(self._events)

    def start(self) -> None:
        """Starts the worker, also after a kill or a stop. Returns when it has joined."""
        if self._process is not None and self._process.poll() is None:
            raise InvalidInput(
                f"the worker runs already, as process {self._process.pid}. Nothing was started.",
                fix="Stop or kill it first.",
            )
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            self._command, env=self._environment, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0
        )
        with self._news:
            self._events.clear()
        self._readers = [
            threading.Thread(target=read, daemon=True) for read in (self._read_events, self._read_errors)
        ]
        for reader in self._readers:
            reader.start()
        self.wait_for_event("worker.joined")

    def kill(self) -> None:
        """Kills it by SIGKILL. Others get its jobs when its lease is over: `leasehold.clock.advance("2m")`."""
        self._running().kill()
        self._end()

    def stop(self) -> int:
        """Stops it by SIGTERM: running jobs may end, the rest is given back. Returns its exit code."""
        process = self._running()
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
        return self._end()

    def pause(self) -> None:
        """Pauses it by SIGSTOP. It keeps its connections and locks, and sends no heartbeats."""
        process = self._running()
        process.send_signal(signal.SIGSTOP)
        if hasattr(os, "waitid"):  # macOS has it since Python 3.13
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        else:
            os.waitpid(process.pid, os.WUNTRACED)

    def resume(self) -> None:
        self._running().send_signal(signal.SIGCONT)

    def wait_for_event(self, event: str, job: str | None = None, patience: float = PATIENCE) -> dict[str, Any]:
        """Returns the first event of this name, such as `job.started` or `job.ended`, of that job if one is given."""
        wanted = None if job is None else job_id(job)
        with self._news:
            self._news.wait_for(lambda: self._found(event, wanted) or self._is_over(), patience)
            if found := self._found(event, wanted):
                return found
        told = "\n".join(self._said) or "It said nothing."
        about = "" if wanted is None else f" of job {wanted}"
        raise AssertionError(f"no {event}{about} came from the worker within {patience:g} s, or it ended.\n{told}")

    def close(self) -> None:
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self.stop()
        else:
            self._end()

    def _found(self, event: str, job: JobId | None) -> dict[str, Any] | None:
        return next((e for e in self._events if e["event"] == event and job in (None, e.get("job"))), None)

    def _is_over(self) -> bool:
        return not any(reader.is_alive() for reader in self._readers)

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._process is None or self._process.poll() is not None:
            raise InvalidInput("the worker does not run. Nothing was done.", fix="Start it: leasehold_worker.start()")
        return self._process

    def _end(self) -> int:
        process, self._process = self._process, None
        assert process is not None
        code = process.wait()
        for reader in self._readers:
            reader.join(PATIENCE)
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()
        return code

    def _read_events(self) -> None:
        self._read("stdout", self._hear)

    def _read_errors(self) -> None:
        self._read("stderr", lambda line: self._said.append(line.decode(errors="replace").rstrip()))

    def _read(self, which: str, hear: Callable[[bytes], None]) -> None:
        assert self._process is not None
        with os.fdopen(os.dup(getattr(self._process, which).fileno()), "rb") as stream:
            for line in stream:
                with self._news:
                    hear(line)
                    self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def _hear(self, line: bytes) -> None:
        try:
            event = orjson.loads(line)
            self._events.append({"event": event["event"], **event})
        except (ValueError, TypeError, KeyError):  # such as the error of a worker that could not start
            self._said.append(line.decode(errors="replace").rstrip())


def target_of(app: Leasehold) -> str:
    """Returns where another process finds the app: the module that holds it by name, a script by file."""
    for name, module in list(sys.modules.items()):
        if isinstance(module, ModuleType):
            for attribute, value in list(vars(module).items()):
                if value is app:
                    return f"{_place(name, module)}:{attribute}"
    raise InvalidInput(
        "no module holds the app, so a process of its own can't import it. Nothing was started.",
        fix='Make it a global of a module: app = Leasehold(); or set leasehold_app = "shop.app:app" for pytest.',
    )


def _place(name: str, module: ModuleType) -> str:
    """Returns a module's file if its name can't be imported, as test modules may be."""
    is_importable = module.__spec__ is not None and name != "__main__" and not _is_a_test(module)
    return name if is_importable else str(module.__file__)


def _is_a_test(module: ModuleType) -> bool:
    file = os.path.basename(getattr(module, "__file__", None) or "")
    return file == "conftest.py" or file.startswith("test_") or file.endswith("_test.py")
