"""The crash kit: runs a handler, stops it at every crash point, lets another worker finish, and counts effects.

    parent    enqueues ── forks A ─────────────── moves the clock ── forks B ───────────── counts
    A         claims, runs, is killed or stopped ─────╳        (stopped: goes on when B is done, and is refused)
    B                                                           reclaims, runs, finishes

Each run is a real worker in a forked process, so that what a test has patched stays patched, and what dies dies.
"""

import os
import signal
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from leasehold.app import Enqueued, Leasehold
from leasehold.engines import engine_for
from leasehold.errors import InvalidInput
from leasehold.model.job import JobRecord, NewJob
from leasehold.model.status import Status
from leasehold.testing.clock import Clock
from leasehold.testing.crash_points import Boundary, HandlerProbe, Ledger, boundaries_of
from leasehold.testing.draining import LEASE, Drain
from leasehold.testing.effects import as_effect
from leasehold.testing.enqueued import in_columns
from leasehold.testing.server import run_in_thread

Count = Callable[[], int]
MakeJob = Callable[[int], NewJob]
PATIENCE = 60.0
# How long the second worker may wait for locks of the first one, which is paused.
PATIENCE_WITH_LOCKS = 3.0
LOOK, LOOK_AT_LOCKS = 0.005, 0.2


@dataclass(frozen=True)
class Crash:
    """One run that was stopped, and the effects that had happened when the job was over."""

    boundary: Boundary
    reached: bool
    seen: int
    expected: int
    status: str
    tries: int

    @property
    def verdict(self) -> str:
        if not self.reached:
            return "NOT REACHED"
        if self.seen == self.expected:
            return "once"
        return "DOUBLED" if self.seen > self.expected else "LOST"


@dataclass(frozen=True)
class Crashes:
    """A handler's effects, crash point by crash point. Prints as a table."""

    definition: str
    tenant: str
    expected: int
    crashes: Sequence[Crash]

    def assert_once(self) -> None:
        """Raises an AssertionError with the table, unless each effect happened once for every crash point."""
        __tracebackhide__ = True
        if any(crash.verdict != "once" for crash in self.crashes):
            raise AssertionError(str(self))

    def __getitem__(self, boundary: str) -> Crash:
        return next(crash for crash in self.crashes if str(crash.boundary) == boundary)

    def __str__(self) -> str:
        rows = [("stopped", "effects", "", "the job")]
        rows += [(str(c.boundary), str(c.seen), c.verdict, f"{c.status}, try {c.tries}") for c in self.crashes]
        verdicts = Counter(crash.verdict for crash in self.crashes)
        told = ", ".join(f"{count} × {verdict}" for verdict, count in verdicts.items())
        head = (
            f"{self.definition} for {self.tenant}, stopped in {len(self.crashes)} places: {told}. "
            f"An undisturbed run makes {self.expected} effect{'s' if self.expected != 1 else ''}."
        )
        advice = [_ADVICE[verdict] for verdict in verdicts if verdict in _ADVICE]
        return "\n".join([head, "", *in_columns(rows), *(f"\n{text}" for text in advice)])


_ADVICE = {
    "DOUBLED": "Doubled: pass job.idempotency_key to the service that makes the effect, so that it knows a "
    "second call as one; or make it in a transaction that is committed with the job's own end, or not at all.",
    "LOST": "Lost: the run that came after did not make what the first one had not. Does the handler take something "
    "for done before it is, or may it run only once (max_attempts=1)?",
    "NOT REACHED": "Not reached: that run did not come to this place. If the runs before have left something behind, "
    "pass a function that makes a job for each: crashes(tenant, lambda number: definition.bind(order=number), …).",
}


class Tester(Protocol):
    """The part of a queue tester that the crash kit uses."""

    @property
    def app(self) -> Leasehold: ...
    @property
    def url(self) -> str: ...
    @property
    def clock(self) -> Clock: ...
    def job(self, job: Enqueued[Any]) -> JobRecord: ...
    def rest(self) -> None: ...


class CrashKit:
    def __init__(
        self,
        tester: Tester,
        tenant: str,
        job: NewJob | MakeJob,
        effects: Sequence[object],
        count: Count | None,
        in_child: Callable[[], object] | None,
    ) -> None:
        self._tester = tester
        self._tenant = tenant
        self._make_job: MakeJob = job if callable(job) else lambda number: job
        self._effects = [as_effect(effect) for effect in effects]
        self._count = count
        self._in_child = in_child
        self._number = 0
        if not self._effects and count is None:
            raise InvalidInput(
                "without effects and without a count the kit can't tell what has happened. Nothing was run.",
                fix="Name the functions that make them, effects=[payments.charge], or pass count=… to count them.",
            )

    def run(self) -> Crashes:
        with tempfile.TemporaryDirectory(prefix="leasehold-crashes-") as folder:
            first = self._run_until(None, Path(folder))
            if not first.seen:
                raise InvalidInput(
                    f"an undisturbed run of {first.definition} made no effect that could be seen (the job is "
                    f"{first.status}{f': {first.error}' if first.error else ''}). Nothing was stopped.",
                    fix="Each run has a process of its own: count what is outside of it, as rows of a database or "
                    "files, or name the functions that make the effects.",
                )
            found = [
                self._judge(boundary, first, self._run_until(boundary, Path(folder)))
                for boundary in boundaries_of(first.calls, first.moments)
            ]
        return Crashes(first.definition, self._tenant, first.seen, found)

    def _judge(self, boundary: Boundary, first: "_Run", run: "_Run") -> Crash:
        return Crash(boundary, run.reached, run.seen, first.seen, run.status, run.tries)

    def _run_until(self, boundary: Boundary | None, folder: Path) -> "_Run":
        """Runs one job from its enqueue to its end, with one stop on the way."""
        ledger = Ledger(folder / f"{self._number}.jsonl")
        job = self._make_job(self._number)
        self._number += 1
        before = self._count() if self._count else 0
        (placed,) = self._tester.app.tenant(self._tenant).enqueue_many([job])
        self._run_it(placed, job.definition, boundary, ledger)
        if boundary is not None and self._is_held(placed):
            self._run_it_again(job.definition, ledger)
        record = self._tester.job(placed)
        if failed := ledger.read("failed"):
            raise RuntimeError(f"a process of the crash kit failed:\n{failed[0]}")
        calls = [(name, number, key) for name, number, key in ledger.read("call")]
        return _Run(
            definition=job.definition,
            calls=[(name, number) for name, number, _ in calls],
            moments=ledger.read("moment"),
            reached=bool(ledger.read("reached")),
            seen=self._count() - before if self._count else _distinct(calls),
            status=str(record.display),
            tries=record.tries,
            error=record.last_error,
        )

    def _is_held(self, job: Enqueued[Any]) -> bool:
        """Returns whether the first worker still holds the job, so that the second one could not run it.

        A heartbeat that was under way when the first was stopped has renewed its lease at the moved clock.
        """
        return self._tester.job(job).status is Status.RUNNING

    def _run_it(self, job: Enqueued[Any], key: str, boundary: Boundary | None, ledger: Ledger) -> None:
        # A forked process has none of our threads, and must have none of our connections.
        self._tester.app.close()
        self._tester.rest()
        with self._fork(key, boundary, ledger, to_the_end=boundary is None) as first:
            stands_still = first.wait()
            if boundary is not None:
                self._tester.clock.advance(2 * LEASE)
                with self._fork(key, None, ledger, to_the_end=True) as second:
                    second.wait(self._is_stuck if stands_still else None)
                    if stands_still and second.ended and self._is_held(job):
                        self._run_it_again(key, ledger)
                    first.go_on()
            first.wait()

    def _run_it_again(self, key: str, ledger: Ledger) -> None:
        self._tester.app.close()
        self._tester.rest()
        self._tester.clock.advance(2 * LEASE)
        with self._fork(key, None, ledger, to_the_end=True) as process:
            process.wait()

    def _is_stuck(self) -> bool:
        """Waits for a lock instead of a time: a slow second worker would let the first one go too soon."""
        tester = self._tester
        return run_in_thread(engine_for(tester.url, tester.app.settings.schema).test_kit().is_stuck())

    @contextmanager
    def _fork(self, key: str, boundary: Boundary | None, ledger: Ledger, *, to_the_end: bool) -> "Iterator[_Process]":
        process = _Process(lambda: self._work(key, boundary, ledger, to_the_end))
        try:
            yield process
            process.wait()
        finally:
            process.end()

    def _work(self, key: str, boundary: Boundary | None, ledger: Ledger, to_the_end: bool) -> None:
        """Runs in the forked process."""
        try:
            if self._in_child is not None:
                self._in_child()
            app = self._tester.app
            probe = HandlerProbe(ledger, boundary)
            probe.begin(app.handlers, key, self._effects)
            drain = Drain(app, self._tester.url)
            run_in_thread(drain.until_nothing_is_left() if to_the_end else drain.until_nothing_is_due())
            probe.wait_for_handlers()
        except BaseException:
            ledger.write(failed=traceback.format_exc())


@dataclass(frozen=True)
class _Run:
    definition: str
    calls: "list[tuple[str, int]]"
    moments: list[str]
    reached: bool
    seen: int
    status: str
    tries: int
    error: str | None


class _Process:
    """A fork of this process that does one thing and ends, without the cleanup of the interpreter."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.ended = False
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # about forks beside threads: ours are closed
            self._pid = os.fork()
        if self._pid == 0:
            try:
                work()
            finally:
                os._exit(0)

    def wait(self, is_stuck: Callable[[], bool] | None = None) -> bool:
        """Waits until it has ended, is paused or has been stuck for long. Returns whether it is paused."""
        now = time.monotonic()
        deadline, next_look, went_well = now + PATIENCE, now + LOOK_AT_LOCKS, now
        while not self.ended and (now := time.monotonic()) < deadline:
            if is_stuck is not None and now > next_look:
                next_look = now + LOOK_AT_LOCKS
                if not is_stuck():
                    went_well = now
                elif now - went_well > PATIENCE_WITH_LOCKS:
                    return False
            pid, status = os.waitpid(self._pid, os.WNOHANG | os.WUNTRACED)
            if pid and os.WIFSTOPPED(status):
                return True
            self.ended = self.ended or bool(pid)
            if not self.ended:
                time.sleep(LOOK)
        return False

    def go_on(self) -> None:
        if not self.ended:
            os.kill(self._pid, signal.SIGCONT)

    def end(self) -> None:
        if not self.ended:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self.ended = True


def _distinct(calls: Sequence[tuple[str, int, str | None]]) -> int:
    """Counts calls with the same key once: to the called service they are the same effect."""
    keyed = {(name, key) for name, _, key in calls if key is not None}
    return len(keyed) + sum(key is None for _, _, key in calls)
