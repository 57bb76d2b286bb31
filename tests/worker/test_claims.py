"""Claims without an attempt: the worker holds them, whatever happens next."""

import asyncio
from collections.abc import Awaitable, Sequence
from datetime import timedelta
from typing import Any, Literal

import pytest
from tests.conftest import PATIENCE, eventually
from tests.tenant_kit import HOUR
from tests.worker.shop import Shop, Verb, only, session_of

from leasehold.errors import RegistrationLost
from leasehold.model.job import Claim, JobId
from leasehold.model.status import AttemptStatus, Status
from leasehold.store import Claimed, Registration, Renewal
from leasehold.worker import Job, Worker
from leasehold.worker.claims import ClaimState
from leasehold.worker.heartbeat import Heartbeat, Leases
from leasehold.worker.session import WorkerSession
from leasehold.worker.starter import AttemptStarter

GIVEN_BACK, SUCCEEDED = AttemptStatus.GIVEN_BACK, AttemptStatus.SUCCEEDED


async def report(job: Job, payload: Any) -> str:
    return "ran"


async def endless(job: Job, payload: Any) -> None:
    await asyncio.Event().wait()


class Late:
    """Claims that bring something while a job runs: their jobs are the worker's, which does not know it yet."""

    def __init__(self, shop: Shop) -> None:
        self.answer = asyncio.Event()
        self._shop = shop
        self._written = asyncio.Event()
        self._first = True
        for verb in ("claim", "prepare_to_sleep"):
            shop.stores.step_in(verb, self._answered_late)

    async def claim(self) -> JobId:
        job = await self._shop.enqueue()
        async with asyncio.timeout(PATIENCE.total_seconds()):
            await self._written.wait()
        return job

    def _answered_late(self, claim: Verb) -> Verb:
        async def verb(registration: Registration, limit: int) -> Claimed:
            claimed: Claimed = await claim(registration, limit)
            if claimed.claims and not self._first:
                self._written.set()
                await self.answer.wait()
            self._first = self._first and not claimed.claims
            return claimed

        return verb


@pytest.fixture
def no_starter(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(starter: AttemptStarter) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(AttemptStarter, "run", never)


async def claimed(shop: Shop, worker: Worker) -> tuple[JobId, WorkerSession]:
    """A job that the worker has claimed, and the session that holds it."""
    job = await shop.enqueue()

    async def holds_it() -> bool:
        return worker.running == 1

    await eventually(holds_it, what="a claim")
    return job, session_of(worker)


@pytest.mark.usefixtures("no_starter")
async def test_when_the_worker_stops_it_is_given_back_at_no_cost(shop: Shop) -> None:
    async with shop.working(only(report)) as worker:
        job, _ = await claimed(shop, worker)
    record = await shop.job(job)
    assert (record.status, record.attempt, record.free_attempts) == (Status.QUEUED, 1, 1)
    assert await shop.statuses(job) == [GIVEN_BACK]


@pytest.mark.parametrize("signals", [1, 2])
async def test_so_is_what_a_claim_brings_that_is_under_way_then(shop: Shop, signals: int) -> None:
    """The worker does not wait for a running job. A second signal ends the grace, not the answer to a claim."""
    late = Late(shop)
    async with shop.working(only(endless), grace=HOUR) as worker:
        first, session = await claimed(shop, worker)
        second = await late.claim()
        acquire, ends_claiming = session.ledger.claiming.acquire, asyncio.Event()

        def noted() -> Awaitable[Literal[True]]:
            ends_claiming.set()
            return acquire()

        session.ledger.claiming.acquire = noted  # type: ignore[method-assign, assignment]
        for _ in range(signals):
            worker.stop()
        await asyncio.wait_for(ends_claiming.wait(), PATIENCE.total_seconds())
        late.answer.set()
        assert (await shop.waits_again(second)).free_attempts == 1
        if signals == 1:
            assert (await shop.job(first)).status is Status.RUNNING
    assert await shop.statuses(second) == [GIVEN_BACK]


async def test_a_stopped_worker_passes_an_unused_wake_on(shop: Shop) -> None:
    heard = asyncio.Event()
    async with shop.working(only(report)) as chosen:
        await shop.at_rest(chosen)
        async with shop.working(only(report)) as other:
            await shop.at_rest(other)
            session_of(chosen).listener.hear = lambda wake: heard.set()  # type: ignore[method-assign]
            job = await shop.enqueue()
            async with asyncio.timeout(PATIENCE.total_seconds()):
                await heard.wait()
            chosen.stop()
            await shop.ended(job)
    assert await shop.statuses(job) == [SUCCEEDED]


async def test_a_cancel_that_comes_before_it_is_started_is_heard(shop: Shop) -> None:
    late, beats = Late(shop), list[int]()

    def counted(renew: Verb) -> Verb:
        async def verb(registration: Registration, held: Sequence[Claim], lease: timedelta, **asks: bool) -> Renewal:
            renewal: Renewal = await renew(registration, held, lease, **asks)
            beats.append(len(held))
            return renewal

        return verb

    shop.stores.step_in("renew", counted)
    async with shop.working(only(endless), leases=Leases(HOUR, HOUR)) as worker:
        await claimed(shop, worker)

        async def beat_for_the_first() -> bool:
            return 1 in beats

        await eventually(beat_for_the_first, what="a heartbeat for the first job")
        second, before = await late.claim(), len(beats)
        await shop.jobs.cancel([second])

        async def beat_for_the_cancel() -> bool:
            return len(beats) > before

        await eventually(beat_for_the_cancel, what="a heartbeat that does not know the second job")
        late.answer.set()
        assert (await shop.ended(second)).status is Status.CANCELED


@pytest.mark.usefixtures("no_starter")
async def test_when_the_registration_is_lost_it_is_forgotten(shop: Shop) -> None:
    async with shop.working(only(report)) as worker:
        job, session = await claimed(shop, worker)
        session.end(RegistrationLost("it was evicted.", fix="Join again."))
        assert session.ledger.count == 0
    assert SUCCEEDED not in await shop.statuses(job)


@pytest.mark.usefixtures("no_starter")
async def test_a_reconcile_does_not_take_it_for_a_stray(shop: Shop) -> None:
    shop.stores.count("held")
    async with shop.working(only(report)) as worker:
        job, session = await claimed(shop, worker)
        session.ledger.expect_strays()

        async def has_asked() -> bool:
            return shop.stores.calls["held"] > 0 and not session.ledger.in_doubt

        await eventually(has_asked, what="a reconcile")
        assert list(worker.state().claims.values()) == [ClaimState.HELD]
        assert await shop.statuses(job) == [AttemptStatus.RUNNING]
        session.starter.start_all()
        await shop.ended(job)
    assert await shop.statuses(job) == [SUCCEEDED]


@pytest.mark.usefixtures("no_starter")
async def test_a_lost_claim_without_an_attempt_frees_its_room(shop: Shop) -> None:
    """No attempt ends then, so nothing else would tell a claim loop that waits for room."""
    async with shop.working(only(report)) as worker:
        job, session = await claimed(shop, worker)
        await shop.observer.execute("delete from leasehold.jobs where id = $1", job)
        session.ledger.freed.clear()
        await session.ledger.reconcile()
        assert session.ledger.freed.is_set()
        assert worker.state().claims == {}


async def test_one_that_can_not_be_started_is_given_back_and_tried_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_next, failures = AttemptStarter.start_next, [MemoryError()]

    def fail_once(starter: AttemptStarter) -> None:
        if failures:
            session_of(worker).ledger.held.popleft()
            raise failures.pop()
        start_next(starter)

    monkeypatch.setattr(AttemptStarter, "start_next", fail_once)
    async with shop.working(only(report)) as worker:
        job = await shop.enqueue()
        await shop.ended(job)
    assert await shop.statuses(job) == [GIVEN_BACK, SUCCEEDED]


async def test_the_heartbeat_after_a_rest_knows_the_first_job(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or it would take the lease of an idle worker, thrice as long, and so would be missed thrice as late."""
    known: list[list[str]] = []

    def noted(_: Heartbeat) -> None:
        claims = worker.state().claims
        known.append([claim.job for claim, state in claims.items() if state is not ClaimState.HELD])

    monkeypatch.setattr(Heartbeat, "hurry_after_a_rest", noted)
    async with shop.working(only(report)) as worker:
        job = await shop.enqueue()
        await shop.ended(job)
    assert known == [[job]]
