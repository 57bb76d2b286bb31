"""Worker processes: signals, exit codes, and a parent that keeps several alive."""

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

from leasehold.worker.worker import Worker

log = logging.getLogger("leasehold.worker")

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
FAILED = 1
QUICK_DEATH = 5.0
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0
# Ctrl-C and systemd signal the whole group, and the parent passes it on as well: what comes so soon is no second one.
SAME_SIGNAL = 1.0
LAST_PATIENCE = 10.0
COLLECT_RARELY = (20_000, 20, 20)


def serve(make_worker: Callable[[], Worker]) -> int:
    """Runs a worker until SIGTERM or SIGINT: 0 after a drain, 1 if it can't go on. A second signal ends the grace."""
    _spare_the_collector()
    try:
        with asyncio.Runner(loop_factory=_fastest_loop()) as runner:
            runner.run(_serve(make_worker))
    except Exception:
        log.exception("the worker can't go on")
        return FAILED
    return 0


def _spare_the_collector() -> None:
    """What is loaded by now stays, and jobs leave few cycles behind: looking for them every 700 objects took 7 % of a
    worker's time. Only for processes that are nothing but workers.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_RARELY)


def _fastest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's, where it is installed."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        return None
    make: Callable[[], asyncio.AbstractEventLoop] = new_event_loop
    return make


async def _serve(make_worker: Callable[[], Worker]) -> None:
    worker = make_worker()
    loop = asyncio.get_running_loop()
    stop = _Stop(worker)
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stop.told)
    try:
        await worker.run()
    finally:
        for number in STOP_SIGNALS:  # one that comes while the process ends must not make a crash of its good end
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)


class _Stop:
    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._last = float("-inf")

    def told(self) -> None:
        if time.monotonic() - self._last > SAME_SIGNAL:
            self._last = time.monotonic()
            self._worker.stop()


def end_with_stdin() -> None:
    """From now on this process ends when stdin does: whoever holds its other end is gone then, however it went.

    It drains, but not for long, and with nobody left to wait for it, it ends in any case.
    """
    threading.Thread(target=_follow_stdin, name="leasehold-stdin", daemon=True).start()


def _follow_stdin() -> None:
    while os.read(0, 1024):
        continue
    for _ in ("stop", "at once"):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1.1 * SAME_SIGNAL)
    time.sleep(LAST_PATIENCE)
    os._exit(FAILED)


def leave(code: int) -> None:
    """Ends the process now: a handler in a thread that outlived its grace can't be stopped in any other way."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


class Parent:
    """Keeps `count` children running `command`; begins one again when it dies; passes signals on.

    A child that dies within seconds of its start is begun again ever more slowly. Ends when it was told to and all
    children have ended: with 0, or with the worst of their codes.
    """

    def __init__(self, command: Sequence[str], count: int) -> None:
        self._command = command
        self._count = count
        self._children: dict[int, tuple[subprocess.Popen[bytes], float]] = {}
        self._pauses = [FIRST_PAUSE] * count
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
        """Not in the signal's handler: a child that is just being started would never hear of it."""
        while self._signals:
            number = self._signals.pop(0)
            self._stopping = True
            for child, _ in self._children.values():
                with suppress(ProcessLookupError):
                    child.send_signal(number)

    def _begin_missing(self) -> None:
        for place in range(self._count):
            if place not in self._children and not self._stopping and time.monotonic() >= self._begin_at[place]:
                self._children[place] = (subprocess.Popen(self._command), time.monotonic())

    def _wait(self) -> None:
        """Until a child ends, a signal comes, or it is time to begin one again."""
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
            self._remember(place, child, time.monotonic() - began)

    def _remember(self, place: int, child: subprocess.Popen[bytes], lived: float) -> None:
        if self._stopping:
            # Ended by the signal itself: it came before the child was ready to hear it, and had begun anything.
            by_signal = [code for number in STOP_SIGNALS for code in (-number, 128 + number)]
            self._worst = max(self._worst, 0 if child.returncode in (0, *by_signal) else FAILED)
            return
        self._pauses[place] = FIRST_PAUSE if lived > QUICK_DEATH else min(2 * self._pauses[place], LONGEST_PAUSE)
        self._begin_at[place] = time.monotonic() + self._pauses[place]
        log.warning(
            "worker process %d ended with %s after %.1f s; begun again in %.1f s",
            child.pid,
            child.returncode,
            lived,
            self._pauses[place],
        )
