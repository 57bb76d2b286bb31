"""One process for handlers with isolation="process", as its worker sees it: started, called, and ended by force."""

import asyncio
import os
import secrets
import signal
import socket
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

from leasehold.commands.folders import Lock, make_lock
from leasehold.commands.guarded import Guarded, Plan
from leasehold.model.isolation import Isolation
from leasehold.model.job import LineKind
from leasehold.model.outcome import Trace
from leasehold.worker.messages import Message, MessageReader, encode

START_LIMIT = 60.0
# How long a handler may clean up after it was canceled, before its process is killed.
KILL_GRACE = 2.0
# How long idle processes may take to close the lifespan of the app, and then its listeners.
LIFESPAN_LIMIT, LISTENERS_LIMIT = 5.0, 3.0
CLOSE_LIMIT = LIFESPAN_LIMIT + LISTENERS_LIMIT
# A process that ends closes its connection a moment before.
LAST_BREATH = 0.5
# How long a handler waits for its next batch of lines to be taken, while its log is full.
FULL_LOG_PAUSE = 0.2

# A variable in the environment of the process and of all that its handlers start.
MARK = b"LEASEHOLD_PROCESS"


class LineLog(Protocol):
    """Takes the lines of one job. `append` returns False if the line is not kept because too many wait."""

    def append(self, text: str, kind: LineKind, progress: float | None) -> bool: ...
    def drop(self, count: int) -> None: ...


class NotStarted(Exception):
    """A process could not be started, or could not import the app."""


class HandlerProcess(asyncio.Protocol):
    """One process below a guard, on the loop of its worker. It runs one call after the other.

    The guard ends it together with all that its handlers have started, also if the worker is killed. `begun` tells
    whether the process has called the handler of the last call. `code` is the exit code, or the negative number of a
    signal; None while anything of the process is alive.
    """

    def __init__(self, command: Sequence[str], isolation: Isolation) -> None:
        """Starts the process. Raises OSError if the system refuses to."""
        self.isolation = isolation
        self.ended = asyncio.Event()
        self.code: int | None = None
        self.begun = False
        self._cpu_before = 0.0
        self._loop = asyncio.get_running_loop()
        self._reader = MessageReader()
        self._transport: asyncio.Transport | None = None
        self._ready: asyncio.Future[str | None] = self._loop.create_future()
        self._answer: asyncio.Future[Message | None] = self._loop.create_future()
        self._number = 0
        self._log: LineLog | None = None
        self._told_to_end = False
        self._is_connected = False
        self._place: Trace | None = None
        self._socket, theirs = socket.socketpair()
        try:
            with theirs:
                self._guarded = _start_guard([*command, str(theirs.fileno())], theirs.fileno())
        except BaseException:
            self._socket.close()
            raise
        self._waiting = self._loop.create_task(self._wait())

    @property
    def pid(self) -> int | None:
        return self._guarded.pid

    @property
    def place(self) -> Trace | None:
        """The place where a handler in a thread was when it was canceled."""
        return self._place

    @property
    def is_usable(self) -> bool:
        return self._is_connected and not self.is_ending

    @property
    def is_ending(self) -> bool:
        """Whether it has ended, or was told to."""
        return self._told_to_end or "ended" in self._guarded.said

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

    async def run(self, call: Message, log: LineLog) -> Message | None:
        """Returns the answer to a call; None if the process has ended without one."""
        self._number += 1
        self._log, self._place, self.begun = log, None, False
        self._answer = self._loop.create_future()
        if self.code is not None:
            return None
        self._send({**call, "call": self._number})
        return await asyncio.shield(self._answer)

    async def cancel(self) -> Message | None:
        """Cancels the call and ends the process: by SIGTERM, after a grace by SIGKILL, with all that it started.

        Returns the answer if the handler ended meanwhile. The handler hears of it by a message, not by the signal:
        systemd sends that to all processes of a service, when their jobs may still go on.
        """
        self._told_to_end = True
        self._send({"cancel": self._number})
        self._guarded.terminate()
        try:
            async with asyncio.timeout(KILL_GRACE):
                return await asyncio.shield(self._answer)
        except TimeoutError:
            return None
        finally:
            self.kill()
            await self.ended.wait()

    def cpu_of_call(self, answer: Message | None) -> float | None:
        """Returns the seconds of processor time that the last call used; None: unknown.

        Without an answer they come from the guard, which has reaped the process and all that it started.
        """
        if answer is not None:
            return cast(float, answer["cpu"])
        total = self._guarded.cpu
        return None if total is None or not self.begun else round(max(0.0, total - self._cpu_before), 6)

    # ------------------------------------------------------------------------------------------------------ end

    def stop(self) -> None:
        """Makes an idle process close the app's lifespan and listeners and end; kills it if that takes too long."""
        self._told_to_end = True
        self._send({"stop": True})
        self._loop.call_later(CLOSE_LIMIT, self.kill)

    def kill(self) -> None:
        self._told_to_end = True
        self._guarded.kill()

    async def _wait(self) -> None:
        """Waits until nothing of the process is alive, then lets its last messages arrive, from the socket."""
        await self._guarded.gone
        await self._guarded.reap()
        self.code = _exit_code(self._guarded.said)
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
            _, _, problem = self._guarded.said.get("failed", "").partition(" ")
            self._ready.set_result(problem or f"its process {describe_end(self.code or 0)}")
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
        if "ready" in message or "failed" in message:
            if not self._ready.done():
                self._ready.set_result(message.get("failed"))
        elif message["call"] != self._number:
            return
        elif "lines" in message:
            self._take_lines(message["lines"])
        elif "begun" in message:
            self.begun, self._cpu_before = True, message["begun"]
        elif "place" in message:
            self._place = Trace(*message["place"])
        elif not self._answer.done():
            self._answer.set_result(message)

    def _take_lines(self, lines: Sequence[Sequence[Any]]) -> None:
        """Passes a batch on, then asks for the next one: at once, or a moment later if the log is full."""
        assert self._log is not None
        is_full = False
        for line in lines:
            match line:
                case [text, kind, progress]:
                    is_full = not self._log.append(text, LineKind(kind), progress)
                case [count]:
                    self._log.drop(count)
        pause = FULL_LOG_PAUSE if is_full else 0.0
        self._loop.call_later(pause, self._send, {"taken": self._number})


def _start_guard(command: Sequence[str], connection: int) -> Guarded:
    """Starts the process below a guard. Raises OSError if the system refuses to."""
    value = secrets.token_hex(16).encode()
    mark = MARK + b"=" + value
    lock = _make_lock(mark)
    plan = Plan(
        command,
        {**os.environb, MARK: value},
        grace=KILL_GRACE,
        lock=str(lock.path) if lock else None,
        held=(lock.descriptor,) if lock else (),
        passed=(connection,),
        mark=mark,
    )
    try:
        return Guarded(plan)
    except BaseException:
        if lock is not None:
            lock.remove()
        raise
    finally:
        if lock is not None:
            lock.release()


def _make_lock(mark: bytes) -> Lock | None:
    """Returns None where no file can be made. A later worker needs it if this one and the guard are both killed."""
    try:
        return make_lock(mark)
    except OSError:
        return None


def _exit_code(said: Mapping[str, str]) -> int:
    """Returns the exit code, or the negative number of a signal. A process whose guard is killed is killed, too."""
    if "ended" not in said:
        return -signal.SIGKILL
    return os.waitstatus_to_exitcode(int(said["ended"].split()[0]))


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
