"""The points where a handler can be stopped, and how: by the kernel, in the process that runs it."""

import asyncio
import inspect
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from leasehold import faults
from leasehold.testing.effects import Effect, Function, replace_everywhere
from leasehold.worker import Handlers, Job
from leasehold.worker.handlers import Handler

PATIENCE = 60.0


class Moment(StrEnum):
    BEGIN = "before it begins"
    BEFORE = "before"
    DURING = "during"
    RETURNED = "returned"
    COMMITTING = "committing"
    WRITTEN = "written"


class Stop(StrEnum):
    """How a run is stopped: it is killed, gets no answer, or is paused past its lease."""

    KILL = "kill"
    NO_ANSWER = "no answer"
    PAUSE = "pause"


@dataclass(frozen=True)
class Boundary:
    """A point in a run. `effect` and `number` name the call, if the point belongs to one."""

    moment: Moment
    stop: Stop = Stop.KILL
    effect: str = ""
    number: int = 1

    def __str__(self) -> str:
        call = self.effect if self.number == 1 else f"{self.effect} ({self.number})"
        where = {
            Moment.BEGIN: "before it begins",
            Moment.BEFORE: f"before {call}",
            Moment.DURING: f"in {call}, its effect made",
            Moment.RETURNED: "returned, its result not yet written",
            Moment.COMMITTING: "its result written, its transaction not yet committed",
            Moment.WRITTEN: "its result written, the worker not yet told",
        }[self.moment]
        match self.stop:
            case Stop.KILL:
                return f"killed: {where}"
            case Stop.NO_ANSWER:
                return f"answer lost: {where}"
            case Stop.PAUSE:
                return f"lease lost: {where}"


# Fault points of the worker. A run reaches some of them, depending on whether it finishes in its own transaction.
POINTS = {
    "before_commit": Moment.COMMITTING,
    "after_commit": Moment.WRITTEN,
    "after_finish": Moment.WRITTEN,
}


def boundaries_of(calls: Sequence["tuple[str, int]"], moments: Sequence[str]) -> list[Boundary]:
    """Returns all crash points of a run that made these calls and reached these moments of its finish."""
    found = [Boundary(Moment.BEGIN)]
    for effect, number in calls:
        found += [
            Boundary(Moment.BEFORE, Stop.KILL, effect, number),
            Boundary(Moment.DURING, Stop.KILL, effect, number),
            Boundary(Moment.DURING, Stop.NO_ANSWER, effect, number),
        ]
    found += [Boundary(Moment.RETURNED), *(Boundary(Moment(moment)) for moment in dict.fromkeys(moments))]
    found += [Boundary(Moment.BEFORE, Stop.PAUSE, effect, number) for effect, number in calls]
    return [*found, Boundary(Moment.RETURNED, Stop.PAUSE)]


class Ledger:
    """A file of lines, each written at once: they stay, however the process ends."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, **entry: Any) -> None:
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(file, orjson.dumps(entry) + b"\n")
        finally:
            os.close(file)

    def read(self, what: str) -> list[Any]:
        lines = self._path.read_bytes().splitlines() if self._path.exists() else []
        return [entry[what] for entry in map(orjson.loads, lines) if what in entry]


class HandlerProbe:
    """Wraps a handler and its effects in a forked process, records every call, and stops the process once."""

    def __init__(self, ledger: Ledger, stop_at: Boundary | None) -> None:
        self._ledger = ledger
        self._stop_at = stop_at
        self._calls: Counter[str] = Counter()
        self._running = 0
        self._change = threading.Condition()

    def begin(self, handlers: Handlers, key: str, effects: Sequence[Effect]) -> None:
        for effect in effects:
            replace_everywhere(effect, lambda function, effect=effect: self._around_effect(effect, function))  # type: ignore[misc]
        handlers.replace(self._around_handler(handlers[key]))
        for point, moment in POINTS.items():
            faults.on(point, partial(self._finishes, Boundary(moment)))

    def wait_for_handlers(self) -> None:
        """Waits: a handler in a thread whose lease was lost runs on, and its effects happen all the same."""
        with self._change:
            self._change.wait_for(lambda: not self._running, PATIENCE)

    # ------------------------------------------------------------------------------------------------------ around

    def _around_handler(self, handler: Handler) -> Handler:
        if handler.is_async:

            async def acall(job: Job, payload: Any) -> Any:
                self._begins()
                try:
                    result = await handler.call(job, payload)
                    self._reach(Boundary(Moment.RETURNED))
                    return result
                finally:
                    self._ends()

            return replace(handler, call=acall)

        def call(job: Job, payload: Any) -> Any:
            self._begins()
            try:
                result = handler.call(job, payload)
                self._reach(Boundary(Moment.RETURNED))
                return result
            finally:
                self._ends()

        return replace(handler, call=call)

    def _around_effect(self, effect: Effect, function: Function) -> Function:
        if inspect.iscoroutinefunction(function):

            async def acall(*args: Any, **kwargs: Any) -> Any:
                number = self._is_called(effect)
                answer = await _to_its_end(function(*args, **kwargs))
                self._has_happened(effect, number, effect.key_of(args, kwargs))
                return answer

            return acall

        def call(*args: Any, **kwargs: Any) -> Any:
            number = self._is_called(effect)
            answer = function(*args, **kwargs)
            self._has_happened(effect, number, effect.key_of(args, kwargs))
            return answer

        return call

    def _begins(self) -> None:
        self._reach(Boundary(Moment.BEGIN))
        with self._change:
            self._running += 1

    def _ends(self) -> None:
        with self._change:
            self._running -= 1
            self._change.notify_all()

    def _finishes(self, here: Boundary) -> None:
        self._ledger.write(moment=here.moment.value)
        self._reach(here)

    def _is_called(self, effect: Effect) -> int:
        with self._change:
            self._calls[effect.name] += 1
            number = self._calls[effect.name]
        self._reach(Boundary(Moment.BEFORE, effect=effect.name, number=number))
        return number

    def _has_happened(self, effect: Effect, number: int, key: str | None) -> None:
        self._ledger.write(call=[effect.name, number, key])
        self._reach(Boundary(Moment.DURING, effect=effect.name, number=number))

    def _reach(self, here: Boundary) -> None:
        there = self._stop_at
        if there is None or replace(there, stop=Stop.KILL) != here:
            return
        self._stop_at = None
        self._ledger.write(reached=True)
        if there.stop is Stop.PAUSE:
            # The worst case: the handler runs on, and does not learn in time that another worker has its job.
            faults.on("before_heartbeat", self.wait_for_handlers)
        _STOPS[there.stop]()


async def _to_its_end(awaited: Any) -> Any:
    """Awaits to the end: a request that was sent is not taken back when its caller is canceled."""
    task = asyncio.ensure_future(awaited)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _lose_the_answer() -> None:
    raise ConnectionResetError("the effect has happened, and its answer was lost (crash kit)")


def _stand_still() -> None:
    """Stops the whole process, this thread first.

    After a signal to the process, this thread would run on for a moment: in 5 of 100 runs the job was finished before
    all stood still.
    """
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


_STOPS: dict[Stop, Callable[[], None]] = {
    Stop.KILL: _kill,
    Stop.NO_ANSWER: _lose_the_answer,
    Stop.PAUSE: _stand_still,
}
