"""Wakes without notifications: looks in a sleeping worker's place, ever less often, and at once within a process."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest
from tests.conftest import PATIENCE
from tests.store.bench import Bench
from tests.tenant_kit import HOUR

from leasehold.engines.dynamodb import wakes
from leasehold.engines.dynamodb.wakes import Wakes
from leasehold.model.job import NewJob, WorkerId
from leasehold.store import Registration, Store, Subscription, Wake

WORKER = WorkerId("01890a5d-ac96-774b-bcce-b302099a0000")
REGISTRATION = Registration(WORKER, Subscription(("report",)))


async def heard(listening: AsyncGenerator[Any, None]) -> Any:
    async with asyncio.timeout(PATIENCE.total_seconds()):
        return await anext(listening)


class Looks:
    """Counts looks for work, of which the last one finds some. A further look gets no answer."""

    def __init__(self, until: int) -> None:
        self.count, self._until = 0, until

    async def work_waits(self, _registration: Registration) -> bool:
        if self.count == self._until:
            await asyncio.Event().wait()
        self.count += 1
        return self.count == self._until


async def test_a_sleeping_worker_is_looked_out_for_ever_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float | None] = []

    class Timeout:
        """A timeout that is over at once."""

        def __init__(self, seconds: float | None) -> None:
            pauses.append(seconds)

        async def __aenter__(self) -> None:
            raise TimeoutError

        async def __aexit__(self, *_: object) -> None: ...

    looks = Looks(until=12)
    listening = Wakes("table", looks.work_waits, idle=30.0)
    async with aclosing(listening.listen(REGISTRATION)) as hears:
        assert await heard(hears) is Wake.WORK
        listening.note_claim(WORKER, found=False)
        monkeypatch.setattr(wakes.asyncio, "timeout", Timeout)  # type: ignore[attr-defined]
        assert await anext(hears) is Wake.WORK
    assert pauses[:4] == [0.05, 0.1, 0.2, 0.4]
    assert pauses[-2:] == [30.0, 30.0]


async def test_a_busy_worker_is_not_looked_out_for() -> None:
    looks = Looks(until=1)
    listening = Wakes("table", looks.work_waits, idle=0.05)
    async with aclosing(listening.listen(REGISTRATION)) as hears:
        await heard(hears)
        listening.note_claim(WORKER, found=True)
        waiting = asyncio.ensure_future(anext(hears))
        done, _ = await asyncio.wait([waiting], timeout=0.2)
        assert not done
        listening.tell(WORKER, Wake.CANCEL)
        assert await waiting is Wake.CANCEL
    assert looks.count == 0


async def test_a_worker_that_claims_elsewhere_is_looked_out_for() -> None:
    """Claims of a worker over HTTP may reach another process of the server than its polls."""
    listening = Wakes("table", Looks(until=1).work_waits, idle=0.05)
    async with aclosing(listening.listen(REGISTRATION)) as hears:
        assert [await heard(hears) for _ in range(2)] == [Wake.WORK, Wake.WORK]


async def test_a_poke_of_any_channel_wakes_at_once(bench: Bench) -> None:
    store: Any = bench.store
    async with aclosing(store.wakes(await bench.worker())) as hears:
        assert await heard(hears) is Wake.WORK
        store.poke()
        assert await heard(hears) is Wake.WORK


async def test_a_job_of_the_same_process_wakes_at_once(bench: Bench) -> None:
    async with aclosing(bench.store.wakes(await bench.worker())) as hears:
        assert await heard(hears) is Wake.WORK
        job = await bench.enqueue()
        assert await heard(hears) is Wake.WORK
        assert await bench.claimed_jobs() == [job]


async def test_a_job_of_another_process_is_seen_by_a_look(bench: Bench, kit: Any) -> None:
    other: Store = await kit.open()
    registration = await bench.worker()
    async with aclosing(bench.store.wakes(registration)) as hears:
        assert await heard(hears) is Wake.WORK
        assert (await bench.store.claim(registration, 1)).claims == ()
        await other.tenant(bench.tenant).enqueue([NewJob(definition="report")])
        assert await heard(hears) is Wake.WORK
    await other.close()


async def test_a_heartbeat_of_another_store_is_heard(bench: Bench, kit: Any) -> None:
    """A worker sends heartbeats from a thread of their own, by a store of their own."""
    other: Store = await kit.open()
    registration = await bench.worker()
    async with aclosing(bench.store.wakes(registration)) as hears:
        assert await heard(hears) is Wake.WORK
        await other.renew(registration, [], HOUR, probe=True)
        assert await heard(hears) is Wake.HEARTBEAT
    await other.close()


async def test_a_claim_has_the_lease_that_another_store_renewed(bench: Bench, kit: Any) -> None:
    other: Store = await kit.open()
    registration = await bench.join(lease=HOUR)
    await bench.move_clock(HOUR * 0.9)
    await other.renew(registration, [], HOUR)
    claim = await bench.running(registration=registration)
    lease = (await bench.job(claim.job)).lease_expires_at
    assert lease is not None
    assert lease - claim.started_at > HOUR * 0.9
    await other.close()


async def test_a_cancel_of_the_same_process_reaches_the_worker(bench: Bench) -> None:
    claim = await bench.running()
    async with aclosing(bench.store.wakes(await bench.worker())) as hears:
        assert await heard(hears) is Wake.WORK
        await bench.jobs.cancel([claim.job])
        assert await heard(hears) is Wake.CANCEL
