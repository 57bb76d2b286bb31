"""Runs child processes that report events as JSON lines on their stdout."""

import asyncio
import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import orjson

from leasehold.errors import InvalidInput
from leasehold.model.job import JobId, job_id

PATIENCE = 60.0
KEPT_OUTPUT = 200
LONGEST_LINE = 2**20


class ChildProcess:
    """One process, from its start to its end. Its stdin ends when its parent does, and a child that follows its
    stdin ends with it.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], *, stderr: int | None = None) -> None:
        """Starts it. Without `stderr` it writes its errors where its parent does."""
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=stderr, bufsize=0)
        self.pid = self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def send_signal(self, number: signal.Signals) -> None:
        """Sends a signal; a child that has ended gets none."""
        self._process.send_signal(number)

    def pause(self) -> None:
        """Pauses it by SIGSTOP; returns when it has stopped."""
        self.send_signal(signal.SIGSTOP)
        if hasattr(os, "waitid"):  # macOS has it since Python 3.13
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)
        else:
            os.waitpid(self.pid, os.WUNTRACED)

    def wait(self, timeout: float | None = None) -> int:
        """Returns the exit code. Raises subprocess.TimeoutExpired."""
        return self._process.wait(timeout)

    async def wait_for_end(self) -> int:
        """Returns the exit code, on a loop: a thread of its own waits for it."""
        loop = asyncio.get_running_loop()
        code: asyncio.Future[int] = loop.create_future()

        def wait() -> None:
            ended_with = self._process.wait()
            with suppress(RuntimeError):  # the loop is closed, and with it every waiting task
                loop.call_soon_threadsafe(code.set_result, ended_with)

        threading.Thread(target=wait, name=f"leasehold-wait-{self.pid}", daemon=True).start()
        return await code

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """Yields the lines of its stdout, on a loop."""
        stream = asyncio.StreamReader(limit=LONGEST_LINE)
        pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), self._process.stdout
        )
        try:
            async for line in stream:
                yield line
        finally:
            pipe.close()

    def read(self, which: str, note: Callable[[bytes], None]) -> None:
        """Calls `note` with each line of its "stdout" or "stderr", in this thread, until that ends."""
        with os.fdopen(os.dup(getattr(self._process, which).fileno()), "rb") as stream:
            for line in stream:
                note(line)

    def close(self) -> None:
        """Closes the pipes of a child that has ended."""
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()


class WatchedChild:
    """A process that another one starts, kills, pauses and waits for, by its events.

    `ready` is the event that tells that the child has started.
    """

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str], ready: str) -> None:
        self._name = name
        self._command = command
        self._environment = environment
        self._ready = ready
        self._child: ChildProcess | None = None
        self._events: list[dict[str, Any]] = []
        self._output: deque[str] = deque(maxlen=KEPT_OUTPUT)
        self._changed = threading.Condition()
        self._readers: list[threading.Thread] = []

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events so far."""
        return list(self._events)

    def start(self) -> None:
        """Starts the child, also after a kill or a stop. Returns when it is ready."""
        if self._child is not None and self._child.is_running:
            raise InvalidInput(
                f"the {self._name} runs already, as process {self._child.pid}. Nothing was started.",
                fix="Stop or kill it first.",
            )
        self._child = ChildProcess(self._command, self._environment, stderr=subprocess.PIPE)
        with self._changed:
            self._events.clear()
        self._readers = [
            threading.Thread(target=read, daemon=True) for read in (self._read_events, self._read_errors)
        ]
        for reader in self._readers:
            reader.start()
        self.wait_for_event(self._ready)

    def kill(self) -> None:
        """Kills it by SIGKILL. Others get the jobs of a worker when its lease is over."""
        self._running().send_signal(signal.SIGKILL)
        self._end()

    def stop(self) -> int:
        """Stops it by SIGTERM: running jobs may end, the rest is given back. Returns its exit code."""
        return self._stop(self._running())

    def pause(self) -> None:
        """Pauses it by SIGSTOP. It keeps its connections and locks, and sends no heartbeats."""
        self._running().pause()

    def resume(self) -> None:
        self._running().send_signal(signal.SIGCONT)

    def wait_for_event(self, event: str, job: str | None = None, patience: float = PATIENCE) -> dict[str, Any]:
        """Returns the first event of this name, such as `job.started` or `job.ended`, of that job if one is given."""
        wanted = None if job is None else job_id(job)
        with self._changed:
            self._changed.wait_for(lambda: self._first_event(event, wanted) or self._is_over(), patience)
            if found := self._first_event(event, wanted):
                return found
        output = "\n".join(self._output) or "It printed nothing."
        about = "" if wanted is None else f" of job {wanted}"
        raise AssertionError(
            f"no {event}{about} came from the {self._name} within {patience:g} s, or it ended.\n{output}"
        )

    def close(self) -> None:
        if self._child is None:
            return
        if self._child.is_running:
            self._child.send_signal(signal.SIGCONT)
            self._stop(self._child)  # also a child that ends at this moment
        else:
            self._end()

    def _stop(self, child: ChildProcess) -> int:
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
        return self._end()

    def _first_event(self, event: str, job: JobId | None) -> dict[str, Any] | None:
        return next((e for e in self._events if e["event"] == event and job in (None, e.get("job"))), None)

    def _is_over(self) -> bool:
        return not any(reader.is_alive() for reader in self._readers)

    def _running(self) -> ChildProcess:
        if self._child is None or not self._child.is_running:
            raise InvalidInput(f"the {self._name} does not run. Nothing was done.", fix="Start it: call start().")
        return self._child

    def _end(self) -> int:
        child, self._child = self._child, None
        assert child is not None
        code = child.wait()
        for reader in self._readers:
            reader.join(PATIENCE)
        child.close()
        return code

    def _read_events(self) -> None:
        self._read("stdout", self._note_event)

    def _read_errors(self) -> None:
        self._read("stderr", lambda line: self._output.append(line.decode(errors="replace").rstrip()))

    def _read(self, which: str, note: Callable[[bytes], None]) -> None:
        def note_and_notify(line: bytes) -> None:
            with self._changed:
                note(line)
                self._changed.notify_all()

        assert self._child is not None
        self._child.read(which, note_and_notify)
        with self._changed:
            self._changed.notify_all()

    def _note_event(self, line: bytes) -> None:
        try:
            event = orjson.loads(line)
            self._events.append({"event": event["event"], **event})
        except (ValueError, TypeError, KeyError):  # such as the error of a worker that could not start
            self._output.append(line.decode(errors="replace").rstrip())
