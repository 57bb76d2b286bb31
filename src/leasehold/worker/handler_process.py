"""The process of handlers with isolation="process": takes calls from its worker, sends lines and outcomes back."""

import asyncio
import contextvars
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from traceback import StackSummary, extract_stack
from typing import Any

from leasehold.errors import InvalidInput, LifespanFailed
from leasehold.model.job import Claim, LineKind
from leasehold.model.outcome import Outcome, Raised, Trace
from leasehold.model.secret_fields import secret_values
from leasehold.runtime.attempt_logs import carry_attempts
from leasehold.runtime.redacted_logs import redact_logs_of_job
from leasehold.telemetry import Listeners, Tracing
from leasehold.telemetry.attempt_context import current_claim
from leasehold.worker.copies import end_a_copy, generation
from leasehold.worker.handler_transaction import HandlerTransaction
from leasehold.worker.handlers import Handler, Handlers
from leasehold.worker.isolated_process import LISTENERS_LIMIT
from leasehold.worker.job import Job
from leasehold.worker.lifespan import Lifespan, OpenState
from leasehold.worker.line_sender import LineSender
from leasehold.worker.messages import Message, MessageReader, claim_of, encode, outcome_as_message
from leasehold.worker.outcomes import failure_of, outcome_of_error, outcome_of_result
from leasehold.worker.threads import Threads
from leasehold.worker.tracebacks import message_of, trace_of_stack

Load = Callable[[Mapping[str, Any]], tuple[Handlers, OpenState | None, Listeners]]

CHUNK = 2**16
MOST_FRAMES = 100
M_ARENA_MAX = -8


class IsolatedJob(Job):
    """The job of a handler in a process of its own."""

    def transaction(self, yours: Any = None) -> HandlerTransaction[Any]:
        raise InvalidInput(
            'job.transaction() needs the process of the worker, and this handler has isolation="process". '
            "Nothing was begun.",
            fix="Leave isolation out, or make the effect repeatable with job.idempotency_key.",
        )


class Connection:
    """The blocking end of the connection to the worker. Any thread may send."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._reader = MessageReader()
        self._lock = threading.Lock()

    def send(self, message: Mapping[str, Any]) -> None:
        with self._lock, suppress(OSError):  # the worker is gone, and this process about to end
            self._socket.sendall(encode(message))

    def first(self) -> Message | None:
        """Waits for the first message; None if the worker is gone before."""
        while data := self._socket.recv(CHUNK):
            for message in self._reader.feed(data):
                return message
        return None

    def follow(self, take: Callable[[Message], None]) -> None:
        """Calls `take` with each message until the worker is gone, even by kill -9."""
        with suppress(OSError):
            while data := self._socket.recv(CHUNK):
                for message in self._reader.feed(data):
                    take(message)


def serve(connected: socket.socket, load: Load) -> None:
    """Runs calls until the worker stops this process. If the worker is gone, the whole process group ends at once."""
    connection = Connection(connected)
    plan = connection.first()
    if plan is None:
        return
    _prepare_process(memory_is_limited=plan["memory"] is not None)
    server = _Server(connection)
    threading.Thread(target=server.follow, name="leasehold-calls", daemon=True).start()
    try:
        handlers, open_state, listeners = load(plan)  # on no running loop: a module may use one while it is imported
    except BaseException as error:  # SystemExit, too
        connection.send({"failed": f"{type(error).__name__}: {message_of(error)}"})
        return
    server.tracing = listeners.tracing
    try:
        asyncio.run(server.run(handlers, open_state, plan["memory"]))
    finally:
        listeners.close(LISTENERS_LIMIT)


class _Server:
    """Runs one call after the other: a coroutine on the loop, any other function in a thread."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lines = LineSender(connection.send)
        self._threads = Threads(1, "leasehold-handler")
        self._thread: int | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._calls: asyncio.Queue[Message | None] = asyncio.Queue()
        self._number = 0
        self._canceled = 0
        self._job: IsolatedJob | None = None
        self._task: asyncio.Task[Outcome] | None = None
        self.tracing: Tracing | None = None

    async def run(self, handlers: Handlers, open_state: OpenState | None, memory: int | None) -> None:
        self._loop = asyncio.get_running_loop()
        lifespan = Lifespan(open_state)
        try:
            await lifespan.open()
            carry_attempts()
        except LifespanFailed as error:
            self._connection.send({"failed": error.happened.removesuffix(" Nothing was claimed.")})
            return
        await self._loop.run_in_executor(self._threads, int)  # the memory of the thread belongs to the process
        _limit_memory(memory)
        self._connection.send({"ready": True})
        while (call := await self._calls.get()) is not None:
            self._connection.send(await self._answer(handlers, call, lifespan.state))
        await lifespan.close()

    async def _answer(self, handlers: Handlers, call: Message, state: Any) -> Message:
        number, key, cpu = call["call"], call["definition"], 0.0
        if key not in handlers.keys:
            outcome: Outcome = Raised("handler_missing", f"the app that this process has imported has no job {key!r}")
        else:
            handler = handlers[key]
            claim = claim_of(call["claim"], handler.definition)
            job = self._job = IsolatedJob(claim, partial(self._append_line, number), state=state)
            if claim.definition.secret_fields:
                _redact_secrets(job, call["payload"])
            self._number = number
            self._lines.begin(number)
            if self._canceled == number:
                job._request_cancel()
            cpu_before = _cpu_used()
            self._connection.send({"call": number, "begun": cpu_before})
            current_claim.set(claim)
            outcome = await self._run(handler, job, call["payload"])
            current_claim.set(None)
            cpu = round(_cpu_used() - cpu_before, 6)
            self._lines.end()
            self._number, self._job = 0, None
        sick = isinstance(outcome, Raised) and outcome.code == MemoryError.__name__
        return {"call": number, "sick": sick, "cpu": cpu, **outcome_as_message(outcome)}

    async def _run(self, handler: Handler, job: Job, payload: Any) -> Outcome:
        assert self._loop is not None
        born, context = generation(), contextvars.copy_context()
        if self.tracing is not None:
            context.run(self.tracing.attach, job._claim.trace_context)
        if handler.is_async:
            self._task = self._loop.create_task(_await_outcome(handler, job, payload, born), context=context)
            if job.canceled:
                self._task.cancel()
            await asyncio.wait([self._task])
            task, self._task = self._task, None
            return Raised("CancelledError", "canceled before it began") if task.cancelled() else task.result()
        call = partial(self._call_outcome, handler, job, payload, born)
        return await self._loop.run_in_executor(self._threads, context.run, call)

    def _call_outcome(self, handler: Handler, job: Job, payload: Any, born: int) -> Outcome:
        self._thread = threading.get_ident()
        try:
            outcome = outcome_of_result(handler.call(job, payload), job._redactor)
            end_a_copy(born)
        except BaseException as error:
            end_a_copy(born, error)
            outcome = outcome_of_error(error, job._redactor)
        self._thread = None
        return outcome

    def _append_line(self, number: int, claim: Claim, text: str, kind: LineKind, progress: float | None) -> bool:
        return self._lines.append(number, text, kind.value, progress)

    # -------------------------------------------------------------------------------------- in the thread of messages

    def follow(self) -> None:
        """Takes messages; when the worker is gone, ends this process and all that its handlers have started.

        The process also ends if this thread dies, because memory ran out: no call or cancel could reach it any more.
        """
        try:
            self._connection.follow(self._take)
        finally:
            os.killpg(os.getpgrp(), signal.SIGKILL)

    def _take(self, message: Message) -> None:
        loop = self._loop
        if loop is None:
            return
        if "taken" in message:
            self._lines.taken(message["taken"])
        elif "cancel" in message:
            self._cancel(message["cancel"], loop)
        else:
            _call_on(loop, self._calls.put_nowait, None if "stop" in message else message)

    def _cancel(self, number: int, loop: asyncio.AbstractEventLoop) -> None:
        """Tells the job, and cancels a coroutine. Of a handler in a thread it also reports the place, for people.

        The call may end at any moment, and with it its job and its task.
        """
        self._canceled = number
        job = self._job
        if number != self._number:
            return
        if job is not None:
            job._request_cancel()
        task = self._task
        if task is not None:
            _call_on(loop, task.cancel)
        elif (place := self._place()) is not None:
            self._connection.send({"call": number, "place": [place.where, place.traceback]})

    def _place(self) -> Trace | None:
        frame = sys._current_frames().get(self._thread or 0)
        if frame is None:
            return None
        stack = extract_stack(frame, MOST_FRAMES)
        above = max((place for place, each in enumerate(stack) if each.filename == __file__), default=-1)
        return trace_of_stack(StackSummary.from_list(list(stack[above + 1 :])))


def _call_on(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *arguments: Any) -> None:
    with suppress(RuntimeError):  # the loop is closed: this process is about to end
        loop.call_soon_threadsafe(call, *arguments)


def _redact_secrets(job: Job, payload: Any) -> None:
    """Redacts the secrets of the payload from all that the job stores, and from logs of its task or thread."""
    plain = json.loads(payload) if isinstance(payload, str | bytes) else payload
    job._redactor = job._redactor.with_values(*secret_values(job._claim.definition.schema, plain))
    redact_logs_of_job(job._redactor)


async def _await_outcome(handler: Handler, job: Job, payload: Any, born: int) -> Outcome:
    try:
        outcome = outcome_of_result(await handler.call(job, payload), job._redactor)
        end_a_copy(born)
        return outcome
    except asyncio.CancelledError as error:
        return failure_of(error, job._redactor)
    except BaseException as error:  # or SystemExit would end the loop
        end_a_copy(born, error)
        return outcome_of_error(error, job._redactor)


def _prepare_process(*, memory_is_limited: bool) -> None:
    """Leaves cancels to messages. The guard has made the system end this process before its worker."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # not SIG_IGN, which programs that handlers start would inherit
    if memory_is_limited and sys.platform == "linux":
        import ctypes

        with suppress(AttributeError):  # else each thread would reserve 64 MB of address space
            ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)


def _cpu_used() -> float:
    """Returns the seconds of processor time of this process, and of the children that it has waited for."""
    import resource

    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _limit_memory(memory: int | None) -> None:
    """Limits the address space to what this process has now, and so many bytes more."""
    if memory is None:
        return
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = _address_space() + memory
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def _address_space() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:  # not Linux: the limit then counts from nothing
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
