"""Runs a child process that reports events as JSON lines on its stdout."""

import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from leasehold.errors import InvalidInput
from leasehold.model.job import JobId, job_id

PATIENCE = 60.0
KEPT_OUTPUT = 200


class ChildProcess:
    """A process that another one starts, kills, pauses and waits for, by its events.

    `ready` is the event that tells that the child has started. Its stdin ends when its parent does, and a child that
    follows its stdin ends with it.
    """

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str], ready: str) -> None:
        self._name = name
        self._command = command
        self._environment = environment
        self._ready = ready
        self._process: subprocess.Popen[bytes] | None = None
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
        if self._process is not None and self._process.poll() is None:
            raise InvalidInput(
                f"the {self._name} runs already, as process {self._process.pid}. Nothing was started.",
                fix="Stop or kill it first.",
            )
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            self._command, env=self._environment, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0
        )
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
        with self._changed:
            self._changed.wait_for(lambda: self._found(event, wanted) or self._is_over(), patience)
            if found := self._found(event, wanted):
                return found
        output = "\n".join(self._output) or "It printed nothing."
        about = "" if wanted is None else f" of job {wanted}"
        raise AssertionError(
            f"no {event}{about} came from the {self._name} within {patience:g} s, or it ended.\n{output}"
        )

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
            raise InvalidInput(f"the {self._name} does not run. Nothing was done.", fix="Start it: call start().")
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
        self._read("stdout", self._note_event)

    def _read_errors(self) -> None:
        self._read("stderr", lambda line: self._output.append(line.decode(errors="replace").rstrip()))

    def _read(self, which: str, note: Callable[[bytes], None]) -> None:
        assert self._process is not None
        with os.fdopen(os.dup(getattr(self._process, which).fileno()), "rb") as stream:
            for line in stream:
                with self._changed:
                    note(line)
                    self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def _note_event(self, line: bytes) -> None:
        try:
            event = orjson.loads(line)
            self._events.append({"event": event["event"], **event})
        except (ValueError, TypeError, KeyError):  # such as the error of a worker that could not start
            self._output.append(line.decode(errors="replace").rstrip())
