"""The worker processes of `leasehold dev`: restarts those that die, reads their events, ends them all."""

import asyncio
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from functools import cache
from random import choice
from time import monotonic
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from leasehold.cli.dev_events import Topic
from leasehold.cli.output import stderr
from leasehold.runtime.child import ChildProcess
from leasehold.runtime.process import SAME_SIGNAL
from leasehold.runtime.supervise import cancel_all, wait_for_first
from leasehold.telemetry import Event, JobDiscarded, JobEnded, JobGivenBack, JobStarted, WorkerJoined

LAST_EVENTS = 1.0
STOP_LIMIT = 25.0
QUICK_DEATH = 5.0
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0


@cache
def _events() -> TypeAdapter[Event]:
    """Reads events. Made at its first use: it takes a twentieth of the time in which any command starts."""
    return TypeAdapter(Annotated[Event, Field(discriminator="event")])


class DevWorker:
    """One worker process, followed by its events."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._process = ChildProcess(command, environment)
        self.pid = self._process.pid
        self.joined: asyncio.Future[WorkerJoined] = asyncio.get_running_loop().create_future()
        self.running: set[tuple[str, str, int]] = set()
        self.killed = False
        self._told_to_stop = float("-inf")

    async def live(self, observe: Callable[[Event], None]) -> int:
        """Passes events on until the process has ended; returns its exit code."""
        events = asyncio.create_task(self._read_events(observe))
        code = await self._process.wait_for_end()
        # Processes that it started may hold its stdout for as long as they like.
        await asyncio.wait([events], timeout=LAST_EVENTS)
        await cancel_all([events])
        self._process.close()
        self.joined.cancel()
        return code

    def kill(self) -> None:
        self.killed = True
        self._process.send_signal(signal.SIGKILL)

    def stop(self) -> None:
        """Makes it drain. A second call ends its grace, late enough to count as a second signal."""
        loop = asyncio.get_running_loop()
        wait = max(0.0, self._told_to_stop + 1.1 * SAME_SIGNAL - monotonic())
        self._told_to_stop = monotonic() + wait
        loop.call_later(wait, self._process.send_signal, signal.SIGTERM)

    async def _read_events(self, observe: Callable[[Event], None]) -> None:
        async with aclosing(self._process.lines()) as lines:
            async for line in lines:
                try:
                    event = _events().validate_json(line)
                except ValidationError:
                    stderr.print(line.decode(errors="replace").rstrip(), markup=False)
                    continue
                self._follow(event)
                observe(event)

    def _follow(self, event: Event) -> None:
        match event:
            case WorkerJoined() if not self.joined.done():
                self.joined.set_result(event)
            case JobStarted():
                self.running.add((event.tenant, event.job, event.attempt))
            case JobEnded() | JobGivenBack() | JobDiscarded():
                self.running.discard((event.tenant, event.job, event.attempt))


class DevWorkers:
    """Workers of one command. A worker that dies is replaced, unless it never joined."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        size: int,
        observe: Callable[[Event], None],
        say: Callable[[Topic, str], None],
    ) -> None:
        self._command = command
        self._environment = environment
        self._size = size
        self._observe = observe
        self._say = say
        self._running_workers: dict[int, DevWorker] = {}
        self._places: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()

    async def start(self) -> WorkerJoined | None:
        """Returns the join event of the first worker once all have joined; None if one could not start."""
        joined = await self._take(0)
        if joined is not None:
            await asyncio.gather(*(self._take(place) for place in range(1, self._size)))
        return joined

    def kill_one(self) -> tuple[int, int] | None:
        """Kills one worker by kill -9, a busy one if there is one. Returns its pid and its number of running jobs."""
        joined = [member for member in self._running_workers.values() if member.joined.done() and not member.killed]
        if not joined or self._stopping.is_set():
            return None
        victim = choice([member for member in joined if member.running] or joined)
        victim.kill()
        return victim.pid, len(victim.running)

    @property
    def is_alive(self) -> bool:
        return bool(self._running_workers)

    def kill(self) -> None:
        """Ends all workers now, by kill -9; none is replaced."""
        self._stopping.set()
        for member in self._running_workers.values():
            member.kill()

    def tell_to_stop(self) -> None:
        self._stopping.set()
        for member in self._running_workers.values():
            member.stop()

    async def stop(self) -> None:
        """Returns when all workers have ended; kills those that have not after 25 s."""
        self.tell_to_stop()
        if self._places:
            await asyncio.wait(self._places, timeout=STOP_LIMIT)
        for member in self._running_workers.values():
            self._say(Topic.ENDED, f"worker {member.pid} did not stop within {STOP_LIMIT:g} s and was killed")
            member.kill()
        await asyncio.gather(*self._places)

    async def _take(self, place: int) -> WorkerJoined | None:
        member = self._begin(place)
        tending = asyncio.create_task(self._tend(place, member), name=f"leasehold worker {place}")
        self._places.append(tending)
        await wait_for_first(asyncio.shield(member.joined), asyncio.shield(tending))
        return None if member.joined.cancelled() or not member.joined.done() else member.joined.result()

    def _begin(self, place: int) -> DevWorker:
        self._running_workers[place] = DevWorker(self._command, self._environment)
        return self._running_workers[place]

    async def _tend(self, place: int, member: DevWorker) -> None:
        pause = FIRST_PAUSE
        while True:
            began = monotonic()
            code = await member.live(self._observe)
            del self._running_workers[place]
            if not member.killed and not self._stopping.is_set():
                if member.joined.cancelled():
                    self._say(Topic.BROKEN, f"a worker could not start (exit code {code}), as it said above")
                    return
                pause = FIRST_PAUSE if monotonic() - began > QUICK_DEATH else min(2 * pause, LONGEST_PAUSE)
                self._say(Topic.ENDED, f"worker {member.pid} ended with {code}; begun again in {pause:.1f} s")
                await wait_for_first(asyncio.sleep(pause), self._stopping.wait())
            if self._stopping.is_set():
                return
            member = self._begin(place)
