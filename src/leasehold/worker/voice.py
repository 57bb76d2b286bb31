"""What handlers say: gathered, and written in small batches, at most one a second; none for who says nothing."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from leasehold.faults import reach
from leasehold.model.job import Claim, Line, LineKind
from leasehold.model.payload import made_storable
from leasehold.store import Fleet

INTERVAL = 1.0
MOST_LINES = 1000
LONGEST_LINE = 10_000


@dataclass
class _Said:
    count: int = 0
    unwritten: list[Line] = field(default_factory=list)


class Voice:
    """May be spoken to from any thread; writes from the worker's loop."""

    def __init__(self, lost: Callable[[Claim], None], heard: Callable[[Claim, Line], None]) -> None:
        self._said: dict[Claim, _Said] = {}
        self._lost = lost
        self._heard = heard
        self._spoken = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def say(self, claim: Claim, text: str, kind: LineKind, progress: float | None) -> None:
        """A handler in a thread comes here too. Past 1,000 unwritten lines of a job, the newest are left out."""
        self._loop.call_soon_threadsafe(self._gather, claim, text, kind, progress)

    async def write_on(self, store: Fleet, in_time: Callable[[Awaitable[None]], Awaitable[None]]) -> None:
        """Writes now and then, for as long as it runs."""
        while True:
            await self._spoken.wait()
            self._spoken.clear()
            try:
                await in_time(self.write(store, tuple(self._said)))
            except BaseException:
                self._spoken.set()
                raise
            await asyncio.sleep(INTERVAL)

    async def write(self, store: Fleet, claims: Iterable[Claim]) -> None:
        """Writes what these claims said; before their finish, since afterwards their fence is gone."""
        lines = [(claim, line) for claim in claims for line in self._unwritten(claim)] if self._said else []
        if not lines:
            return
        reach("before_say")
        lost = await store.say(lines)
        for claim, line in lines:
            self._written(claim, line.number)
        for claim in lost:
            self.forget(claim)
            self._lost(claim)

    def forget(self, claim: Claim) -> None:
        if self._said:
            self._said.pop(claim, None)

    def _gather(self, claim: Claim, text: str, kind: LineKind, progress: float | None) -> None:
        said = self._said.setdefault(claim, _Said())
        if len(said.unwritten) >= MOST_LINES:
            return
        said.count += 1
        line = Line(said.count, made_storable(text, LONGEST_LINE), kind, progress)
        said.unwritten.append(line)
        self._spoken.set()
        self._heard(claim, line)

    def _unwritten(self, claim: Claim) -> list[Line]:
        """Numbered lines are kept once, so what may not have been written is simply written again."""
        return list(self._said[claim].unwritten) if claim in self._said else []

    def _written(self, claim: Claim, number: int) -> None:
        if said := self._said.get(claim):
            said.unwritten = [line for line in said.unwritten if line.number > number]
