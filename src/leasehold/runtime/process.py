"""Runs a service as a process: signals, exit codes, and a parent that keeps several children running."""

import asyncio
import gc
import logging
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Protocol

from leasehold.runtime.closing import close_listeners
from leasehold.runtime.supervise import RestartPolicy
from leasehold.telemetry import Listeners
from leasehold.telemetry.listeners import CLOSE_TIMEOUT

log = logging.getLogger("leasehold.worker")

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
FAILED = 1
QUICK_DEATH = 5.0
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0
# systemd signals the whole group, and the parent passes it on as SIGTERM: one that comes so soon is the same one.
SAME_SIGNAL = 1.0
# No person presses Ctrl-C twice so quickly, but a program that started this one may pass on what the terminal sent.
SAME_KEY = 0.1
# The terminal signals the whole group, and a parent on a busy machine passes that on late: the other kind of signal
# within this time is the other half of one request. With 1 s, one Ctrl-C was once taken for two, and gave jobs back.
SAME_REQUEST = 5.0
LAST_PATIENCE = 10.0
# After the grace: 5 s for canceled handlers, 5 s for the last finishes, 8 s for processes of handlers, 1 s for tasks
# that are left. Listeners get what is left of it, but for a moment at the end. Then the process is killed.
FORCED_END, LAST_MOMENT = 20.0, 1.0
LAST_TASKS, LAST_MESSAGE = 1.0, 1.0
COLLECT_RARELY = (20_000, 20, 20)
# The environment variable by which a child knows its number among its siblings, from 0. It outlives restarts.
PROCESS_NUMBER = "LEASEHOLD_PROCESS_NUMBER"


class Service(Protocol):
    """A service that `serve` runs, such as a worker."""

    @property
    def grace(self) -> timedelta: ...
    @property
    def joined(self) -> asyncio.Event: ...
    @property
    def listeners(self) -> Listeners: ...
    async def run(self) -> None: ...
    def stop(self) -> None: ...
    def announce_stop(self, grace: timedelta) -> None: ...


class ServiceFailed(RuntimeError):
    """Ends a service that has logged the reason itself; its process ends with 1."""


def serve(make_service: Callable[[], Service], on_joined: Callable[[], None] = lambda: None) -> int:
    """Runs a service until SIGTERM or SIGINT. Returns 0 after a drain, 1 if the service fails.

    `on_joined` is called once, when the service has reached the database. Listeners of the service are closed at its
    end, since `leave` calls no exit handlers.

    A second signal ends the grace, a third the process. The process is killed, with 1, if it still runs 20 s after
    the grace: a handler may block the loop. Call `leave` with the return value: handlers that can't be stopped may
    still run, and would keep the process alive.
    """
    _spare_the_collector()
    runner = asyncio.Runner(loop_factory=_fastest_loop())
    _unclosed.append(runner)
    try:
        runner.run(_serve(make_service, on_joined))
    except ServiceFailed:
        return FAILED
    except Exception:
        log.exception("the worker can't go on")
        return FAILED
    return 0


# Closing a runner waits for every task and thread, without a limit; one that is collected closes its coroutines.
_unclosed: list[asyncio.Runner] = []


def _spare_the_collector() -> None:
    """Makes garbage collections rare: loaded modules stay, and jobs leave few cycles behind.

    A collection every 700 objects took 7 % of a worker's time. Only for processes that do nothing else.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_RARELY)


def _fastest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Returns the factory of uvloop, if it is installed."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        return None
    make: Callable[[], asyncio.AbstractEventLoop] = new_event_loop
    return make


async def _serve(make_service: Callable[[], Service], on_joined: Callable[[], None]) -> None:
    service = make_service()
    stop = _Stop(service)
    stop.listen()
    announcement = asyncio.create_task(_call_when_joined(service, on_joined))
    try:
        await service.run()
    finally:
        announcement.cancel()
        await _end_tasks()
        await close_listeners(service.listeners, stop.limit(CLOSE_TIMEOUT))
        stop.ignore_from_now_on()


async def _call_when_joined(service: Service, call: Callable[[], None]) -> None:
    await service.joined.wait()
    call()


async def _end_tasks() -> None:
    """Cancels the tasks that handlers have left behind, and waits a moment for their end."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=LAST_TASKS)


def process_number() -> int:
    """Returns the number of this process among the children of its parent; 0 without one."""
    text = os.environ.get(PROCESS_NUMBER, "")
    return int(text) if text.isascii() and text.isdecimal() else 0


class StopRequests:
    """Counts how often a stop was asked for, by SIGINT and by SIGTERM; the larger count holds.

    One Ctrl-C can reach a process as both: the terminal sends SIGINT to the whole group, and the parent SIGTERM.
    """

    def __init__(self) -> None:
        self._counts = dict.fromkeys(STOP_SIGNALS, 0)
        self._last = dict.fromkeys(STOP_SIGNALS, float("-inf"))
        self.count = 0

    def add(self, number: int, now: float) -> bool:
        """Returns whether this signal asks for more than the signals before it."""
        kind = signal.Signals(number)
        same_within = SAME_KEY if kind is signal.SIGINT else SAME_SIGNAL
        if now - self._last[kind] <= same_within:
            return False
        if now - max(self._last.values()) > SAME_REQUEST:
            self._counts = dict.fromkeys(STOP_SIGNALS, self.count)
        self._last[kind] = now
        self._counts[kind] += 1
        before, self.count = self.count, max(self._counts.values())
        return self.count > before


class _Stop:
    """Follows signals in a thread, so that a handler that blocks the loop can't keep the process from ending."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._requests = StopRequests()
        self._ends_at: float | None = None

    def listen(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._read, self._written = os.pipe()
        os.set_blocking(self._written, False)
        for number in STOP_SIGNALS:
            signal.signal(number, self._note)
        threading.Thread(target=self._follow, name="leasehold-signals", daemon=True).start()

    def ignore_from_now_on(self) -> None:
        """Ignores signals that come while the process ends: they must not turn its good end into a crash."""
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)

    def limit(self, seconds: float) -> float:
        """Returns the seconds, or as many as are left before the process would be ended by force."""
        if self._ends_at is None:
            return seconds
        return max(0.0, min(seconds, self._ends_at - LAST_MOMENT - time.monotonic()))

    def request_stop(self, number: int) -> None:
        now = time.monotonic()
        if not self._requests.add(number, now):
            return
        if self._requests.count > 2:
            _end_by_force("a third signal came")
        grace = self._service.grace if self._requests.count == 1 else timedelta()
        self._ends_at = now + grace.total_seconds() + FORCED_END
        self._call_on_loop(partial(self._stop, grace))

    def _stop(self, grace: timedelta) -> None:
        """Runs on the loop, since the log may wait for a lock that a blocked handler holds."""
        self._service.announce_stop(grace)
        self._service.stop()

    def _note(self, number: int, _frame: object) -> None:
        with suppress(BlockingIOError):
            os.write(self._written, bytes([number]))

    def _follow(self) -> None:
        while True:
            left = None if self._ends_at is None else max(0.0, self._ends_at - time.monotonic())
            if select.select([self._read], [], [], left)[0]:
                self.request_stop(os.read(self._read, 1)[0])
            elif left is not None:
                _end_by_force(f"it has not ended within {FORCED_END:g} s of the end of the grace")

    def _call_on_loop(self, call: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(call)


def _end_by_force(why: str) -> None:
    """Ends the process even if the thread that blocks it holds a lock that the log needs."""
    text = "the worker process ends by force: %s. Jobs that it still holds run again when its lease is over."
    logging_thread = threading.Thread(target=log.error, args=(text, why), daemon=True)
    with suppress(RuntimeError):  # the system has refused the thread
        logging_thread.start()
        logging_thread.join(LAST_MESSAGE)
    os._exit(FAILED)


def end_with_stdin() -> None:
    """Makes this process end when its stdin ends: then the process that held the other end is gone.

    It drains, but not for long; after that it ends in any case.
    """
    threading.Thread(target=_follow_stdin, name="leasehold-stdin", daemon=True).start()


def drain_with_stdin() -> None:
    """Makes this process drain and end, as by SIGTERM, when its parent is gone, which holds stdin open."""
    threading.Thread(target=_follow_parent, name="leasehold-stdin", daemon=True).start()


def _follow_parent() -> None:
    _read_stdin()
    log.warning("the parent process is gone: worker process %d drains and ends", os.getpid())
    os.kill(os.getpid(), signal.SIGTERM)


def _read_stdin() -> None:
    while os.read(0, 1024):
        continue


def _follow_stdin() -> None:
    _read_stdin()
    for _ in ("stop", "at once"):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1.1 * SAME_SIGNAL)
    time.sleep(LAST_PATIENCE)
    os._exit(FAILED)


def leave(code: int) -> None:
    """Ends the process now. A handler in a thread that outlived its grace can't be stopped in any other way."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


class Parent:
    """Keeps `count` children running `command`, restarts a child that dies, and passes signals on.

    Holds the other end of each child's stdin, so that a child notices the parent's end, even by kill -9.

    The pauses between restarts double while a child dies within seconds of its start. After a signal the parent ends
    when all children have ended: with 0, or with the worst of their codes.
    """

    def __init__(self, command: Sequence[str], count: int) -> None:
        self._command = command
        self._count = count
        self._children: dict[int, tuple[subprocess.Popen[bytes], float]] = {}
        self._restarts = [RestartPolicy(FIRST_PAUSE, LONGEST_PAUSE, lasting=QUICK_DEATH) for _ in range(count)]
        self._begin_at = [0.0] * count
        self._signals: list[int] = []
        self._stopping = False
        self._worst = 0
        self._alarm = -1

    def run(self) -> int:
        for number in STOP_SIGNALS:
            signal.signal(number, lambda number, _frame: self._signals.append(number))
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._alarm, written = os.pipe()
        for end in (self._alarm, written):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(written)
        while not self._stopping or self._children:
            self._pass_on()
            self._begin_missing()
            self._wait()
            self._reap()
        return self._worst

    def _pass_on(self) -> None:
        """Sends signals outside the signal handler: a child that is just being started would never get them.

        Always SIGTERM: children count a SIGINT that the terminal has sent them separately.
        """
        while self._signals:
            self._signals.pop(0)
            self._stopping = True
            for child, _ in self._children.values():
                with suppress(ProcessLookupError):
                    child.send_signal(signal.SIGTERM)

    def _begin_missing(self) -> None:
        for place in range(self._count):
            if place not in self._children and not self._stopping and time.monotonic() >= self._begin_at[place]:
                environment = os.environ | {PROCESS_NUMBER: str(place)}
                self._children[place] = (
                    subprocess.Popen(self._command, stdin=subprocess.PIPE, env=environment),
                    time.monotonic(),
                )

    def _wait(self) -> None:
        """Waits until a child ends, a signal comes, or it is time to restart a child."""
        waiting = [self._begin_at[place] for place in range(self._count) if place not in self._children]
        seconds = max(0.0, min(waiting) - time.monotonic()) if waiting and not self._stopping else 1.0
        select.select([self._alarm], [], [], min(seconds, 1.0))
        with suppress(BlockingIOError):
            os.read(self._alarm, 100)

    def _reap(self) -> None:
        for place, (child, began) in list(self._children.items()):
            if child.poll() is None:
                continue
            del self._children[place]
            assert child.stdin is not None
            child.stdin.close()
            self._remember(place, child, time.monotonic() - began)

    def _remember(self, place: int, child: subprocess.Popen[bytes], lived: float) -> None:
        if self._stopping:
            # A child may end by the signal itself, if that came before its handlers were set; it had begun nothing.
            by_signal = [code for number in STOP_SIGNALS for code in (-number, 128 + number)]
            self._worst = max(self._worst, 0 if child.returncode in (0, *by_signal) else FAILED)
            return
        pause = self._restarts[place].next_pause(lived)
        self._begin_at[place] = time.monotonic() + pause
        log.warning(
            "worker process %d ended with %s after %.1f s; begun again in %.1f s",
            child.pid,
            child.returncode,
            lived,
            pause,
        )
