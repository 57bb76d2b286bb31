"""Wakes of workers over HTTP: kept for the next poll of the worker, which says how far it has heard.

Polls of one worker may reach several processes of the server in turn. Each process has a feed of its own, so the name
of a feed that is answered also has the feeds that the worker has heard before: `<feed>+<other>.<number>+…`.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from datetime import timedelta
from secrets import token_hex
from time import monotonic
from typing import NamedTuple

from leasehold.errors import CannotListen
from leasehold.runtime.supervise import cancel_all
from leasehold.store import DueWork, Fleet, NextFire, Registration, Wake

MOST_PENDING = 200
MOST_LISTENERS = 100
# As many processes of one server can take turns.
MOST_FEEDS = 50
# A worker polls again within milliseconds. Producers take a worker for awake as long as somebody listens for it.
LINGER = 2.0
_ID = r"[0-9a-f]{16}"
_LATEST, _OTHER = re.compile(_ID), re.compile(rf"({_ID})\.([0-9]{{1,16}})")


def read_heard(feed: str | None, heard: int) -> dict[str, int]:
    """Returns how far each feed was heard, the latest first. Parts that can't be read are left out."""
    latest, *others = (feed or "").split("+")
    found = {latest: heard} if _LATEST.fullmatch(latest) else {}
    for other in others[: MOST_FEEDS - 1]:
        if read := _OTHER.fullmatch(other):
            found.setdefault(read[1], int(read[2]))
    return found


def name_of(feed: str, known: Mapping[str, int]) -> str:
    """Returns the name of a feed for its worker, with the others that the worker has heard."""
    others = [f"{other}.{number}" for other, number in known.items() if other != feed]
    return "+".join([feed, *others[: MOST_FEEDS - 1]])


class HeardWakes(NamedTuple):
    """Wakes, each with the time since it came. The next poll names `feed` and `number`."""

    feed: str
    number: int
    wakes: list[tuple[Wake | DueWork, timedelta]]


class WakeFeed:
    """Listens for one worker. A wake is kept until a poll says that it was heard: an answer may be lost.

    Equal wakes are one. A new feed begins with WORK, as each connection of a store does, so nothing is missed when a
    feed was ended between two polls.
    """

    def __init__(self, store: Fleet, registration: Registration, on_operation: Callable[[], None]) -> None:
        self.id = token_hex(8)
        self._pending: dict[Wake | DueWork, tuple[int, float]] = {}
        self._number = 0
        self._changed = asyncio.Event()
        self._on_operation = on_operation
        self._polls = 0
        self._polled_at = monotonic()
        self._listening = asyncio.create_task(self._listen(store, registration))
        self._listening.add_done_callback(lambda _: self._changed.set())

    @property
    def has_ended(self) -> bool:
        return self._listening.done()

    @property
    def is_idle(self) -> bool:
        """Whether no poll waits, and none came for a moment."""
        return not self._polls and monotonic() - self._polled_at >= LINGER

    async def _listen(self, store: Fleet, registration: Registration) -> None:
        async with aclosing(store.wakes(registration)) as wakes:
            async for wake in wakes:
                if isinstance(wake, DueWork) and wake.definition not in registration.serves.definitions:
                    continue  # a worker learns nothing of definitions that it does not serve
                if wake is Wake.OPERATION:  # the server runs it
                    self._on_operation()
                elif not isinstance(wake, NextFire):
                    self._put(wake)

    def _put(self, wake: Wake | DueWork) -> None:
        if len(self._pending) >= MOST_PENDING:  # of a worker that does not poll: a look finds everything
            self._pending.clear()
            wake = Wake.WORK
        self._pending.pop(wake, None)
        self._number += 1
        self._pending[wake] = self._number, monotonic()
        self._changed.set()

    async def poll(self, heard: int, wait: float) -> HeardWakes:
        """Returns the wakes after that number; waits for one. A newer poll ends the wait."""
        self._pending = {wake: at for wake, at in self._pending.items() if at[0] > heard}
        self._polls += 1
        self._changed.set()  # an older poll of the same worker answers: its client has given it up
        self._changed = changed = asyncio.Event()
        try:
            if not self._pending and not self.has_ended:
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await changed.wait()
            if self.has_ended and not self._listening.cancelled():
                self._listening.result()
        finally:
            self._polls -= 1
            self._polled_at = monotonic()
        now = monotonic()
        return HeardWakes(
            self.id,
            self._number,
            [(wake, timedelta(seconds=now - at)) for wake, (_, at) in self._pending.items()],
        )

    async def close(self) -> None:
        await cancel_all([self._listening])


class WakeFeeds:
    """The feeds of a process, one for each worker that polls. One without polls is ended after a moment."""

    def __init__(self, store: Fleet, on_operation: Callable[[], None] = lambda: None) -> None:
        self._store = store
        self._on_operation = on_operation
        self._feeds: dict[str, WakeFeed] = {}
        self._sweeping: asyncio.Task[None] | None = None

    async def poll(self, registration: Registration, feed: str | None, heard: int, wait: float) -> HeardWakes:
        """Returns wakes of a worker that has heard the feed of this name up to a number. Raises CannotListen."""
        known = read_heard(feed, heard)
        current = self._feeds.get(registration.worker)
        if current is None or current.has_ended or current.id not in known:
            current = await self._begin(registration, current)
        answer = await current.poll(known.get(current.id, 0), wait)
        return answer._replace(feed=name_of(current.id, known))

    async def _begin(self, registration: Registration, before: WakeFeed | None) -> WakeFeed:
        if before is None and len(self._feeds) >= MOST_LISTENERS:
            raise CannotListen(
                f"this server listens for {MOST_LISTENERS} workers, and for no more. Wakes are replaced by polling; "
                "no job is lost.",
                fix="Run more processes of the API, or fewer workers with more slots each.",
            )
        feed = self._feeds[registration.worker] = WakeFeed(self._store, registration, self._on_operation)
        if before is not None:
            await before.close()
        if self._sweeping is None or self._sweeping.done():
            self._sweeping = asyncio.create_task(self._sweep())
        return feed

    async def _sweep(self) -> None:
        """Ends idle feeds, until there is none."""
        while self._feeds:
            await asyncio.sleep(LINGER / 2)
            for worker, feed in list(self._feeds.items()):
                if feed.is_idle:
                    await self.end(worker)

    async def end(self, worker: str) -> None:
        if feed := self._feeds.pop(worker, None):
            await feed.close()

    async def close(self) -> None:
        sweeping = [] if self._sweeping is None else [self._sweeping]
        await cancel_all(sweeping)
        for worker in list(self._feeds):
            await self.end(worker)
