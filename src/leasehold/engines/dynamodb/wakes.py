"""Wakes of workers: looks at the due index, often while there is work and seldom while there is none.

DynamoDB sends nothing by itself. A store wakes the workers of its own process at once, and `poke` does the same for a
message of any channel that the user has. For all else it looks in a sleeping worker's place: 50 ms after a claim that
found nothing, and then after twice as long each time, up to the interval for an idle worker. A worker that is busy
looks by itself as soon as it has room.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress

from leasehold.errors import Unreachable
from leasehold.model.job import WorkerId
from leasehold.store import Registration, Wake

FIRST_PAUSE = 0.05

# By table and worker, for all stores of this process: a worker has several, each on the event loop of its thread.
_inboxes: dict[tuple[str, WorkerId], "_Inbox"] = {}


class Wakes:
    def __init__(self, table: str, work_waits: Callable[[Registration], Awaitable[bool]], idle: float) -> None:
        self._table = table
        self._work_waits = work_waits
        self._idle = idle

    def poke(self) -> None:
        """Makes all workers of this process look for work now."""
        for (table, _), inbox in tuple(_inboxes.items()):
            if table == self._table:
                inbox.send(Wake.WORK)

    def tell(self, worker: WorkerId, wake: Wake) -> None:
        if inbox := _inboxes.get((self._table, worker)):
            inbox.send(wake)

    def note_claim(self, worker: WorkerId, *, found: bool) -> None:
        """Notes whether a claim found work: only a worker that found none is looked out for."""
        if inbox := _inboxes.get((self._table, worker)):
            inbox.note_claim(found=found)

    async def listen(self, registration: Registration) -> AsyncGenerator[Wake, None]:
        """Yields wakes. The first is at once, since work may wait already."""
        key = self._table, registration.worker
        inbox = _inboxes[key] = _Inbox(self._idle)
        looking = asyncio.create_task(self._keep_looking(registration, inbox))
        looking.add_done_callback(inbox.end)
        try:
            yield Wake.WORK
            while True:
                yield await inbox.take()
        finally:
            looking.cancel()
            if _inboxes.get(key) is inbox:
                del _inboxes[key]

    async def _keep_looking(self, registration: Registration, inbox: "_Inbox") -> None:
        """Looks for work beside the listener: a slow answer must not hold up a wake that comes by itself."""
        while True:
            await inbox.until_look()
            with suppress(Unreachable):
                if await self._work_waits(registration):
                    inbox.put(Wake.WORK)


class _Inbox:
    """Wakes that came and were not yet read, of which equal ones fold into one; and when to look for work."""

    def __init__(self, idle: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._idle = idle
        self._pending: dict[Wake, None] = {}
        self._came = asyncio.Event()
        self._claimed = asyncio.Event()
        self._asleep = True  # until a claim is noted: those of a worker over HTTP may come by another process
        self._pause = FIRST_PAUSE
        self._looking: asyncio.Task[None] | None = None

    def send(self, wake: Wake) -> None:
        """Puts a wake from any thread."""
        with suppress(RuntimeError):  # its loop is closed
            self._loop.call_soon_threadsafe(self.put, wake)

    def put(self, wake: Wake) -> None:
        self._pending[wake] = None
        self._came.set()

    def end(self, looking: asyncio.Task[None]) -> None:
        """Ends with the task that looks: `take` raises its error."""
        self._looking = looking
        self._came.set()

    def note_claim(self, *, found: bool) -> None:
        if found:
            self._pause = FIRST_PAUSE
        self._asleep = not found
        self._claimed.set()

    async def take(self) -> Wake:
        """Returns the next wake."""
        while not self._pending:
            if self._looking is not None:
                self._looking.result()
            self._came.clear()
            await self._came.wait()
        wake = next(iter(self._pending))
        del self._pending[wake]
        return wake

    async def until_look(self) -> None:
        """Waits until it is time to look for work in the worker's place."""
        while True:
            self._claimed.clear()
            try:
                async with asyncio.timeout(min(self._pause, self._idle) if self._asleep else None):
                    await self._claimed.wait()
            except TimeoutError:
                self._pause = min(2 * self._pause, self._idle)
                return
