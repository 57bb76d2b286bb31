"""Buffers log lines and progress of handlers, and writes them in batches; jobs that log nothing cost nothing."""

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from leasehold.faults import reach
from leasehold.model.job import Claim, LineKind, LogLine
from leasehold.model.payload import made_storable
from leasehold.store import Fleet

INTERVAL = 1.0
MOST_LINES = 1000
LONGEST_LINE = 10_000
DROPPED = "… {count:,} lines were dropped here: a job keeps at most {most:,} unwritten lines."


@dataclass
class _Said:
    count: int = 0
    dropped: int = 0
    unwritten: list[LogLine] = field(default_factory=list)


class LogBuffer:
    """May be spoken to from any thread; writes from the worker's loop.

    A line is in the buffer when `say` returns, so a finish that comes later writes it first. The loop is woken once
    for all lines since its last wake: a million lines posted one by one took its memory and its time.
    """

    def __init__(
        self,
        lost: Callable[[Claim], None],
        heard: Callable[[Claim, LogLine], None] | None,
        may_speak: Callable[[Claim], bool],
    ) -> None:
        """`heard` is told of each kept line, on the loop. Lines of claims that may not speak are ignored."""
        self._said: dict[Claim, _Said] = {}
        self._lost = lost
        self._heard = heard
        self._may_speak = may_speak
        self._to_hear: deque[tuple[Claim, LogLine]] = deque()
        self._spoken = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._loop_is_woken = False

    def say(self, claim: Claim, text: str, kind: LineKind, progress: float | None) -> None:
        """Keeps at most 1,000 unwritten lines of a job; one line in place of the others says how many they were."""
        if not self._may_speak(claim):
            return
        with self._lock:
            said = self._said.get(claim) or self._said.setdefault(claim, _Said())
            if len(said.unwritten) >= MOST_LINES:
                said.dropped += 1
                return
            self._note_dropped(claim, said)
            self._keep(claim, said, made_storable(text[: LONGEST_LINE + 1], LONGEST_LINE), kind, progress)
            wakes, self._loop_is_woken = not self._loop_is_woken, True
        if wakes:
            with suppress(RuntimeError):  # the loop is closed, and with it the worker
                self._loop.call_soon_threadsafe(self._wake)

    async def write_on(self, store: Fleet, in_time: Callable[[Awaitable[None]], Awaitable[None]]) -> None:
        """Writes now and then, for as long as it runs."""
        while True:
            await self._spoken.wait()
            self._spoken.clear()
            try:
                await in_time(self.write(store, self._speakers()))
            except BaseException:
                self._spoken.set()
                raise
            await asyncio.sleep(INTERVAL)

    async def write(self, store: Fleet, claims: Iterable[Claim]) -> None:
        """Writes what these claims said; before their finish, since afterwards their fence is gone."""
        if not self._said:
            return
        with self._lock:
            lines = [(claim, line) for claim in claims for line in self._unwritten(claim)]
        self._tell()
        if not lines:
            return
        reach("before_say")
        lost = await store.append_log(lines)
        last = {claim: line.number for claim, line in lines}
        with self._lock:
            for claim, number in last.items():
                self._written(claim, number)
        self.forget(lost)
        for claim in lost:
            self._lost(claim)

    def forget(self, claims: Iterable[Claim]) -> None:
        if self._said:
            with self._lock:
                for claim in claims:
                    self._said.pop(claim, None)

    def _speakers(self) -> tuple[Claim, ...]:
        with self._lock:
            return tuple(self._said)

    def _keep(self, claim: Claim, said: _Said, text: str, kind: LineKind, progress: float | None) -> None:
        said.count += 1
        line = LogLine(said.count, text, kind, progress)
        said.unwritten.append(line)
        if self._heard is not None:
            self._to_hear.append((claim, line))

    def _note_dropped(self, claim: Claim, said: _Said) -> None:
        if said.dropped:
            text = DROPPED.format(count=said.dropped, most=MOST_LINES)
            said.dropped = 0
            self._keep(claim, said, text, LineKind.LOG, None)

    def _wake(self) -> None:
        with self._lock:
            self._loop_is_woken = False
        self._spoken.set()
        self._tell()

    def _tell(self) -> None:
        while self._heard is not None and self._to_hear:
            self._heard(*self._to_hear.popleft())

    def _unwritten(self, claim: Claim) -> list[LogLine]:
        """Numbered lines are kept once, so what may not have been written is simply written again."""
        said = self._said.get(claim)
        if said is None:
            return []
        self._note_dropped(claim, said)
        return list(said.unwritten)

    def _written(self, claim: Claim, last: int) -> None:
        if said := self._said.get(claim):
            said.unwritten = [line for line in said.unwritten if line.number > last]
