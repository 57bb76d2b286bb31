"""Buffers log lines and progress of handlers, and writes them in batches; jobs that log nothing cost nothing."""

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from leasehold.faults import reach
from leasehold.model.job import Claim, LineKind, LogLine
from leasehold.model.payload import make_storable
from leasehold.store import Fleet

INTERVAL = 1.0
MOST_LINES = 1000
MOST_CHARACTERS = 2_000_000
LONGEST_LINE = 10_000
DROPPED = "… {count:,} lines were dropped here: a job keeps at most {most:,} unwritten lines."
DROPPED_BY_SIZE = "… {count:,} lines were dropped here: a job keeps at most 2 MB of unwritten lines."


@dataclass
class _JobLines:
    count: int = 0
    dropped: int = 0
    characters: int = 0
    unwritten: list[LogLine] = field(default_factory=list)


class LogBuffer:
    """Takes lines from any thread; writes them from the worker's loop.

    A line is in the buffer when `append` returns, so a later finish writes it first. The loop is woken once for all
    lines since its last wake: a million lines posted one by one took its memory and its time.
    """

    def __init__(
        self,
        lost: Callable[[Claim], None],
        on_line: Callable[[Claim, LogLine], None] | None,
        accepts: Callable[[Claim], bool],
        most_lines: int = MOST_LINES,
    ) -> None:
        """Calls `on_line` with each buffered line, on the loop. Ignores lines of claims that `accepts` refuses.

        Keeps at most `most_lines` unwritten lines of a job.
        """
        self._most_lines = most_lines
        self._by_claim: dict[Claim, _JobLines] = {}
        self._lost = lost
        self._on_line = on_line
        self._accepts = accepts
        self._unreported: deque[tuple[Claim, LogLine]] = deque()
        self._any_line = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._loop_is_woken = False

    def append(self, claim: Claim, text: str, kind: LineKind, progress: float | None) -> bool:
        """Buffers the line, unless too many of the job are unwritten; then counts it and returns False.

        One line in place of those that were dropped tells how many they were.
        """
        if not self._accepts(claim):
            return False
        with self._lock:
            buffered = self._by_claim.get(claim) or self._by_claim.setdefault(claim, _JobLines())
            if len(buffered.unwritten) >= self._most_lines or buffered.characters >= MOST_CHARACTERS:
                buffered.dropped += 1
                return False
            self._note_dropped(claim, buffered)
            self._keep(claim, buffered, make_storable(text[: LONGEST_LINE + 1], LONGEST_LINE), kind, progress)
            wakes, self._loop_is_woken = not self._loop_is_woken, True
        if wakes:
            with suppress(RuntimeError):  # the loop is closed, and with it the worker
                self._loop.call_soon_threadsafe(self._wake)
        return True

    def drop(self, claim: Claim, count: int) -> None:
        """Counts lines that were not even passed to `append`, because it had refused the line before them."""
        with self._lock:
            if (buffered := self._by_claim.get(claim)) is not None:
                buffered.dropped += count

    async def run(self, store: Fleet, in_time: Callable[[Awaitable[None]], Awaitable[None]]) -> None:
        """Writes buffered lines, at most once a second, until it is canceled."""
        while True:
            await self._any_line.wait()
            self._any_line.clear()
            try:
                await in_time(self.write(store, self._claims_with_lines()))
            except BaseException:
                self._any_line.set()
                raise
            await asyncio.sleep(INTERVAL)

    async def write(self, store: Fleet, claims: Iterable[Claim]) -> None:
        """Writes the lines of these claims; called before their finish, since afterwards their fence is gone."""
        if not self._by_claim:
            return
        with self._lock:
            lines = [(claim, line) for claim in claims for line in self._lines_to_write(claim)]
        self._report()
        if not lines:
            return
        reach("before_say")
        lost = await store.append_log(lines)
        last = {claim: line.number for claim, line in lines}
        with self._lock:
            for claim, number in last.items():
                self._drop_written(claim, number)
        self.forget(lost)
        for claim in lost:
            self._lost(claim)

    def forget(self, claims: Iterable[Claim]) -> None:
        if self._by_claim:
            with self._lock:
                for claim in claims:
                    self._by_claim.pop(claim, None)

    def _claims_with_lines(self) -> tuple[Claim, ...]:
        with self._lock:
            return tuple(self._by_claim)

    def _keep(self, claim: Claim, buffered: _JobLines, text: str, kind: LineKind, progress: float | None) -> None:
        buffered.count += 1
        line = LogLine(buffered.count, text, kind, progress)
        buffered.unwritten.append(line)
        buffered.characters += len(text)
        if self._on_line is not None:
            self._unreported.append((claim, line))

    def _note_dropped(self, claim: Claim, buffered: _JobLines) -> None:
        if buffered.dropped:
            by_size = buffered.characters >= MOST_CHARACTERS
            text = (DROPPED_BY_SIZE if by_size else DROPPED).format(count=buffered.dropped, most=self._most_lines)
            buffered.dropped = 0
            self._keep(claim, buffered, text, LineKind.LOG, None)

    def _wake(self) -> None:
        with self._lock:
            self._loop_is_woken = False
        self._any_line.set()
        self._report()

    def _report(self) -> None:
        while self._on_line is not None and self._unreported:
            self._on_line(*self._unreported.popleft())

    def _lines_to_write(self, claim: Claim) -> list[LogLine]:
        """Returns lines to write. The store keeps each number once, so a line is safely written again."""
        buffered = self._by_claim.get(claim)
        if buffered is None:
            return []
        self._note_dropped(claim, buffered)
        return list(buffered.unwritten)

    def _drop_written(self, claim: Claim, last: int) -> None:
        if buffered := self._by_claim.get(claim):
            buffered.unwritten = [line for line in buffered.unwritten if line.number > last]
            buffered.characters = sum(len(line.text) for line in buffered.unwritten)
