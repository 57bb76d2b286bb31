"""The heartbeat: what it tells the database, and that it can't stop the loop that it serves."""

import asyncio
from collections.abc import Coroutine, Sequence
from datetime import timedelta
from typing import Any

import pytest
from tests.conftest import PATIENCE, eventually
from tests.worker.shop import HOUR, Shop, Verb, only

from leasehold.model.job import Claim, JobId, WorkerId
from leasehold.store import Renewal, Seat, Serves
from leasehold.worker import Job
from leasehold.worker.heartbeat import Heartbeat, Leases


class Beats:
    """What each beat told of. The first that tells of nothing after one that told of a job is answered late."""

    def __init__(self) -> None:
        self.told: list[tuple[JobId, ...]] = []
        self.tells_of_rest = asyncio.Event()
        self.answer = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def __call__(self, renew: Verb) -> Verb:
        async def verb(seat: Seat, held: Sequence[Claim], lease: timedelta) -> Renewal:
            self.told.append(tuple(claim.job for claim in held))
            renewal: Renewal = await renew(seat, held, lease)
            if any(self.told) and not held:
                self._loop.call_soon_threadsafe(self.tells_of_rest.set)
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._until_answered(), self._loop))
            return renewal

        return verb

    async def _until_answered(self) -> None:
        await self.answer.wait()


async def test_a_job_that_begins_while_a_beat_tells_of_rest_is_told_of_at_once(shop: Shop) -> None:
    """Or it would run under an idle worker's lease, and a crash be noticed as late."""
    began, go_on, beats = asyncio.Event(), asyncio.Event(), Beats()

    async def report(job: Job, payload: dict[str, Any]) -> None:
        began.set()
        await go_on.wait()

    async def told_of(job: JobId) -> None:
        async def told() -> bool:
            return (job,) in beats.told

        await eventually(told, what="a heartbeat that tells of the job")

    shop.doors.step_in("renew", beats)
    async with shop.working(only(report), leases=Leases(busy=timedelta(seconds=3), idle=HOUR)):
        await told_of(await shop.enqueue())
        go_on.set()
        async with asyncio.timeout(PATIENCE.total_seconds()):
            await beats.tells_of_rest.wait()
        began.clear()
        go_on.clear()
        second = await shop.enqueue()
        async with asyncio.timeout(PATIENCE.total_seconds()):
            await began.wait()
        beats.answer.set()
        await told_of(second)


async def test_one_that_can_not_begin_says_so_and_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    def fail(beat: Coroutine[Any, Any, None]) -> None:
        beat.close()
        raise OSError("too many open files")

    monkeypatch.setattr(asyncio, "run", fail)
    heart = Heartbeat(
        open_store=lambda: pytest.fail("nothing is opened"),
        seat=Seat(WorkerId("00000000-0000-0000-0000-000000000000"), Serves(("report",))),
        leases=Leases(),
        held=tuple,
        on_renewal=lambda renewal: None,
        on_lost=said.append,
        on_broken=lambda error: said.append(str(error)),
    )
    async with asyncio.timeout(PATIENCE.total_seconds()):
        await asyncio.to_thread(heart.start)
        await asyncio.to_thread(heart.stop)
    assert said == ["too many open files"]
