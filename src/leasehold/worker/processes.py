"""Processes for handlers with isolation="process": started when they are needed, kept warm, and ended by force."""

import asyncio
import logging
import os
import signal
import socket
import subprocess
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from leasehold.model.isolation import Isolation
from leasehold.model.job import LineKind
from leasehold.model.outcome import Trace
from leasehold.runtime.supervise import cancel_all
from leasehold.worker.messages import Message, MessageReader, encode

log = logging.getLogger("leasehold.worker")

START_LIMIT = 60.0
# How long a handler may clean up after it was canceled, before its process is killed.
KILL_GRACE = 2.0
# How long idle processes may take to close the lifespan of the app.
CLOSE_LIMIT = 5.0
# A process that ends closes its connection a moment before.
LAST_BREATH = 0.5

OnLine = Callable[[str, LineKind, float | None], None]


class NotStarted(Exception):
    """A process could not be started, or could not import the app."""


class HandlerProcess(asyncio.Protocol):
    """One process, at the head of a process group, on the loop of its worker. It runs one call after the other.

    Its group is only signaled before the process is reaped: until then no other process can have its number.
    """

    def __init__(self, command: Sequence[str], isolation: Isolation) -> None:
        """Starts the process. Raises OSError if the system refuses to."""
        self.isolation = isolation
        self.ended = asyncio.Event()
        self.code: int | None = None
        self._loop = asyncio.get_running_loop()
        self._reader = MessageReader()
        self._transport: asyncio.Transport | None = None
        self._ready: asyncio.Future[str | None] = self._loop.create_future()
        self._answer: asyncio.Future[Message | None] = self._loop.create_future()
        self._number = 0
        self._on_line: OnLine | None = None
        self._told_to_end = False
        self._is_connected = False
        self._reaped = False
        self._lock = threading.Lock()
        self._place: Trace | None = None
        self._socket, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = _spawn([*command, str(theirs.fileno())], theirs)
            self.pid = self._process.pid
            self._start_waiting()
        except BaseException:
            self._socket.close()
            raise

    @property
    def place(self) -> Trace | None:
        """The place where a handler in a thread was when it was canceled."""
        return self._place

    @property
    def is_usable(self) -> bool:
        return self._is_connected and self.code is None and not self._told_to_end

    # ----------------------------------------------------------------------------------------------------- work

    async def start(self, plan: Mapping[str, Any]) -> None:
        """Returns when the process has imported the app. Raises NotStarted."""
        await self._loop.create_unix_connection(lambda: self, sock=self._socket)
        self._send({**plan, "memory": self.isolation.memory})
        try:
            async with asyncio.timeout(START_LIMIT):
                failure = await asyncio.shield(self._ready)
        except TimeoutError:
            failure = f"it did not import the app within {START_LIMIT:g} s"
        if failure is not None:
            self.kill()
            raise NotStarted(failure)

    async def run(self, call: Message, on_line: OnLine) -> Message | None:
        """Returns the answer to a call; None if the process has ended without one."""
        self._number += 1
        self._on_line, self._place = on_line, None
        self._answer = self._loop.create_future()
        if self.code is not None:
            return None
        self._send({**call, "call": self._number})
        return await asyncio.shield(self._answer)

    async def cancel(self) -> Message | None:
        """Cancels the call and ends the process: by SIGTERM, after a grace by SIGKILL, with its whole group.

        Returns the answer if the handler ended meanwhile. The handler hears of it by a message, not by the signal:
        systemd sends that to all processes of a service, when their jobs may still go on.
        """
        self._told_to_end = True
        self._send({"cancel": self._number})
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(KILL_GRACE):
                return await asyncio.shield(self._answer)
        except TimeoutError:
            return None
        finally:
            self.kill()
            await self.ended.wait()

    # ------------------------------------------------------------------------------------------------------ end

    def stop(self) -> None:
        """Makes an idle process close the lifespan of the app and end."""
        self._told_to_end = True
        self._send({"stop": True})

    def kill(self) -> None:
        self._told_to_end = True
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        with self._lock:
            if not self._reaped:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, number)

    def _start_waiting(self) -> None:
        waiting = threading.Thread(target=self._wait, name=f"leasehold-wait-{self.pid}", daemon=True)
        try:
            waiting.start()
        except RuntimeError as error:  # the system has refused the thread
            self._signal(signal.SIGKILL)
            self._process.wait()
            raise OSError(str(error)) from error

    def _wait(self) -> None:
        """Waits in a thread; before it reaps the process, kills the rest of its group."""
        if hasattr(os, "waitid"):  # macOS has it since Python 3.13
            with suppress(ChildProcessError):  # it was reaped by others, or SIGCHLD is ignored
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
                self._signal(signal.SIGKILL)
            with self._lock:
                code = self._process.wait()
                self._reaped = True
        else:
            code = self._process.wait()
            self._reaped = True
        with suppress(RuntimeError):  # the loop is closed, and with it the worker
            self._loop.call_soon_threadsafe(self._note_end, code)

    def _note_end(self, code: int) -> None:
        """Lets the last messages arrive first: they may still be in the socket."""
        self.code = code
        if self._is_connected:
            self._loop.call_later(LAST_BREATH, self._finish)
        else:
            self._finish()

    def _finish(self) -> None:
        if self._transport is not None:
            self._transport.close()
        else:
            self._socket.close()
        if not self._ready.done():
            self._ready.set_result(f"its process {describe_end(self.code or 0)}")
        if not self._answer.done():
            self._answer.set_result(None)
        self.ended.set()

    # ------------------------------------------------------------------------------------------------- messages

    def _send(self, message: Mapping[str, Any]) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(encode(message))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # that of uvloop is not an instance
        self._is_connected = True

    def data_received(self, data: bytes) -> None:
        for message in self._reader.feed(data):
            self._take(message)

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends a process that lives on without its connection: no answer could arrive."""
        self._is_connected = False
        if self.code is not None:
            self._finish()
        else:
            self._loop.call_later(LAST_BREATH, self._end_if_cut_off)

    def _end_if_cut_off(self) -> None:
        if self.code is None:
            self.kill()

    def _take(self, message: Message) -> None:
        if "line" in message:
            text, kind, progress = message["line"]
            if message["call"] == self._number and self._on_line is not None:
                self._on_line(text, LineKind(kind), progress)
        elif "ready" in message or "failed" in message:
            if not self._ready.done():
                self._ready.set_result(message.get("failed"))
        elif "place" in message:
            self._place = Trace(*message["place"])
        elif message["call"] == self._number and not self._answer.done():
            self._answer.set_result(message)


class HandlerProcesses:
    """The processes of one worker: at most `most`, one for each handler that runs, and warm ones for the next.

    `plan` tells a process where the app is, and where its database is.
    """

    def __init__(self, command: Sequence[str], plan: Mapping[str, Any], most: int) -> None:
        self._command = command
        self._plan = plan
        self._most = most
        self._idle: dict[Isolation, list[HandlerProcess]] = defaultdict(list)
        self._living: set[HandlerProcess] = set()

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._living if not process.ended.is_set()]

    async def take(self, isolation: Isolation) -> HandlerProcess:
        """Returns an idle process, or starts one. Raises NotStarted."""
        idle = self._idle[isolation]
        while idle:
            if (process := idle.pop()).is_usable:
                return process
        self._living = {process for process in self._living if not process.ended.is_set()}
        if len(self._living) >= self._most:
            self._end_one_of_another_kind()
        return await self._start(isolation)

    def give_back(self, process: HandlerProcess) -> None:
        """Keeps a process for the next call, unless it was told to end."""
        if process.is_usable:
            self._idle[process.isolation].append(process)

    async def close(self) -> None:
        """Ends all processes; none of them runs a handler any more."""
        living, self._living = [process for process in self._living if not process.ended.is_set()], set()
        self._idle.clear()
        if not living:
            return
        for process in living:
            process.stop()
        ends = [asyncio.ensure_future(process.ended.wait()) for process in living]
        await asyncio.wait(ends, timeout=CLOSE_LIMIT)
        for process in living:
            process.kill()
        await asyncio.wait(ends, timeout=CLOSE_LIMIT)
        await cancel_all(ends)

    async def _start(self, isolation: Isolation) -> HandlerProcess:
        try:
            process = HandlerProcess(self._command, isolation)
        except OSError as error:
            raise NotStarted(f"the system has refused it: {error}") from error
        self._living.add(process)
        try:
            await process.start(self._plan)
        except BaseException:  # canceled, too
            process.kill()
            raise
        return process

    def _end_one_of_another_kind(self) -> None:
        for idle in self._idle.values():
            if idle:
                idle.pop(0).stop()
                return


def _spawn(command: Sequence[str], theirs: socket.socket) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], start_new_session=True)


def describe_end(code: int) -> str:
    """Describes the end of a process that the worker did not end."""
    if code >= 0:
        return f"ended with exit code {code}"
    if -code == signal.SIGKILL:
        return "was killed by SIGKILL, not by its worker; possibly the system ran out of memory"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"ended by {name}, as after a crash of the interpreter or of a native library"
