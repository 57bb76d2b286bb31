"""Processes for handlers with isolation="process": started when they are needed, kept warm, and ended by force."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from leasehold.commands.folders import look_for_leftovers
from leasehold.model.isolation import Isolation
from leasehold.runtime.supervise import RestartPolicy, cancel_all, wait_for_first
from leasehold.worker.isolated_process import CLOSE_LIMIT, HandlerProcess, NotStarted

log = logging.getLogger("leasehold.worker")

# How long a job waits if its process could not be started.
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0


class HandlerProcesses:
    """The processes of one worker: at most `most`, one for each handler that runs, and warm ones for the next.

    `plan` tells a process where the app is, and where its database is.
    """

    def __init__(self, command: Sequence[str], plan: Mapping[str, Any], most: int) -> None:
        self._command = command
        self._plan = plan
        self._most = most
        self._idle: dict[Isolation, list[HandlerProcess]] = defaultdict(list)
        self._living: set[HandlerProcess] = set()
        self._failures = RestartPolicy(FIRST_PAUSE, LONGEST_PAUSE)

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._living if process.pid is not None and not process.ended.is_set()]

    async def take(self, isolation: Isolation) -> HandlerProcess:
        """Returns an idle process, or starts one. Raises NotStarted."""
        idle = self._idle[isolation]
        while idle:
            if (process := idle.pop()).is_usable:
                return process
        await self._make_room()
        return await self._start(isolation)

    def give_back(self, process: HandlerProcess) -> None:
        """Keeps a process for the next call, unless it was told to end."""
        if process.is_usable:
            self._idle[process.isolation].append(process)

    def pause_after(self, problem: str) -> float:
        """Returns how many seconds a job waits whose process could not be started: each failure doubles them."""
        seconds = self._failures.next_random_pause()
        log.warning(
            "the process of a handler could not be started: %s; its job is run again in %.0f s, at no cost",
            problem,
            seconds,
        )
        return seconds

    async def close(self) -> None:
        """Ends all processes; none of them runs a handler any more."""
        living = [process for process in self._living if not process.ended.is_set()]
        self._idle.clear()
        if not living:
            return
        for process in living:
            process.stop()
        ends = [asyncio.ensure_future(process.ended.wait()) for process in living]
        await asyncio.wait(ends, timeout=CLOSE_LIMIT)
        for process in living:
            process.kill()
        await asyncio.wait(ends, timeout=CLOSE_LIMIT)
        await cancel_all(ends)

    async def _start(self, isolation: Isolation) -> HandlerProcess:
        look_for_leftovers()
        try:
            process = HandlerProcess(self._command, isolation)
        except OSError as error:
            raise NotStarted(f"the system has refused it: {error}") from error
        self._living.add(process)
        try:
            await process.start(self._plan)
        except BaseException:  # canceled, too
            process.kill()
            raise
        self._failures.reset()
        return process

    async def _make_room(self) -> None:
        """Waits until there may be one more process. Ends an idle one of another kind, if none is ending already."""
        while True:
            self._living = {process for process in self._living if not process.ended.is_set()}
            if len(self._living) < self._most:
                return
            ending = [process for process in self._living if process.is_ending] or self._end_an_idle_one()
            if not ending:
                return
            await wait_for_first(*(process.ended.wait() for process in ending))

    def _end_an_idle_one(self) -> list[HandlerProcess]:
        for idle in self._idle.values():
            if idle:
                process = idle.pop(0)
                process.stop()
                return [process]
        return []
