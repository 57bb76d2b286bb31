"""The heartbeat: what it tells the database, and that it can't stop the loop that it serves."""

import asyncio
import threading
import time
from collections.abc import Coroutine, Sequence
from datetime import timedelta
from time import monotonic
from typing import Any

import pytest
from tests.conftest import PATIENCE, eventually
from tests.proxy import Proxy
from tests.tenant_kit import HOUR
from tests.worker.shop import SHORT, Payload, Shop, Verb, WatchedStores, only, session_of

from leasehold.model.backoff import Steps
from leasehold.model.job import Claim, JobId, WorkerId
from leasehold.model.status import AttemptStatus, Status
from leasehold.store import Claimed, Registration, Renewal, Subscription
from leasehold.worker import Job
from leasehold.worker.heartbeat import Heartbeat, HeartbeatHooks, Leases

SUCCEEDED = AttemptStatus.SUCCEEDED


async def test_a_heartbeat_that_hangs_does_not_cost_the_lease(shop: Shop, database_url: str) -> None:
    """Its connection is dead without a word; the next try opens another while the lease still holds."""

    async def report(job: Job, payload: object) -> None: ...

    async with Proxy(database_url).open() as proxy:
        leases = Leases(busy=timedelta(seconds=6), idle=timedelta(seconds=6))
        stores, renewals = WatchedStores(proxy.url), list[Renewal]()

        def noted(renew: Verb) -> Verb:
            async def verb(*arguments: Any, **named: Any) -> Any:
                renewals.append(await renew(*arguments, **named))
                return renewals[-1]

            return verb

        stores.step_in("renew", noted)
        async with shop.working(only(report), stores, leases=leases) as worker:
            session = session_of(worker)

            async def is_dead() -> bool:
                return proxy.strand(b"last_seen_at = (select now") == 1

            async def has_beaten_again() -> bool:
                return worker.state().worker != session.calls.registration.worker or len(renewals) > before

            await eventually(is_dead, what="a heartbeat's connection")
            before = len(renewals)
            session.heartbeat.hurry()
            await eventually(has_beaten_again, what="another heartbeat")
            assert worker.state().worker == session.calls.registration.worker


async def test_a_worker_that_stood_still_does_not_blame_the_database(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As after SIGSTOP and SIGCONT: time has passed for its lease, and none of its waits could end."""
    stood_still = 0.0
    monkeypatch.setattr("leasehold.worker.heartbeat.monotonic", lambda: monotonic() + stood_still)

    async def report(job: Job, payload: object) -> None: ...

    async with shop.working(only(report)) as worker:
        await shop.at_rest(worker)
        session = session_of(worker)
        stood_still = 1000.0
        session.heartbeat.hurry()

        async def has_said_so() -> bool:
            return "Joining again" in caplog.text

        await eventually(has_said_so, what="the end of the registration")
    (lost,) = (message for message in caplog.messages if "lost its registration" in message)
    assert "this process did not run for" in lost
    assert "database" not in lost


async def test_a_worker_that_stood_still_during_a_heartbeat_says_so(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The database has answered meanwhile, but the lease counts from when the heartbeat was sent."""
    stood_still = 0.0
    monkeypatch.setattr("leasehold.worker.heartbeat.monotonic", lambda: monotonic() + stood_still)

    def stands_still_once(renew: Verb) -> Verb:
        async def verb(*arguments: Any, **named: Any) -> Any:
            nonlocal stood_still
            renewal = await renew(*arguments, **named)
            stood_still = 1000.0
            return renewal

        return verb

    async def report(job: Job, payload: object) -> None: ...

    shop.stores.step_in("renew", stands_still_once)
    async with shop.working(only(report)):

        async def has_said_so() -> bool:
            return "Joining again" in caplog.text

        await eventually(has_said_so, what="the end of the registration")
    lost = next(message for message in caplog.messages if "lost its registration" in message)
    assert "this process did not run for" in lost


async def test_a_worker_that_drains_does_not_miss_its_listener(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It has closed its listener, so no heartbeat's notification comes back."""
    began, go_on = asyncio.Event(), asyncio.Event()

    async def report(job: Job, payload: object) -> None:
        began.set()
        await go_on.wait()

    shop.stores.count("wake_another")
    shop.stores.count("renew")
    async with shop.working(only(report)) as worker:
        await shop.at_rest(worker)
        await shop.enqueue()
        await began.wait()
        worker.stop()
        session = session_of(worker)

        async def claims_no_more() -> bool:
            return shop.stores.calls["wake_another"] > 0

        async def beats_several_times() -> bool:
            session.heartbeat.hurry()
            return shop.stores.calls["renew"] > beats + 5

        await eventually(claims_no_more, what="the drain")
        for limit in ("PROBE_LIMIT", "LOOP_LIMIT"):
            monkeypatch.setattr(f"leasehold.worker.listener.{limit}", 0.01)
        caplog.clear()
        beats = shop.stores.calls["renew"]
        await eventually(beats_several_times, what="five heartbeats")
        go_on.set()
    assert "listener" not in caplog.text


class Beats:
    """Records the claims of each beat. The first beat without claims after one with claims is answered late."""

    def __init__(self) -> None:
        self.told: list[tuple[JobId, ...]] = []
        self.tells_of_rest = asyncio.Event()
        self.answer = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def __call__(self, renew: Verb) -> Verb:
        async def verb(registration: Registration, held: Sequence[Claim], lease: timedelta, **asks: bool) -> Renewal:
            self.told.append(tuple(claim.job for claim in held))
            renewal: Renewal = await renew(registration, held, lease, **asks)
            if any(self.told) and not held:
                self._loop.call_soon_threadsafe(self.tells_of_rest.set)
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._until_answered(), self._loop))
            return renewal

        return verb

    async def _until_answered(self) -> None:
        await self.answer.wait()


async def test_a_job_that_begins_during_an_idle_beat_sends_another(shop: Shop) -> None:
    """Or it would run under an idle worker's lease, and a crash be noticed as late."""
    began, go_on, beats = asyncio.Event(), asyncio.Event(), Beats()

    async def report(job: Job, payload: dict[str, Any]) -> None:
        began.set()
        await go_on.wait()

    async def told_of(job: JobId) -> None:
        async def told() -> bool:
            return (job,) in beats.told

        await eventually(told, what="a heartbeat that tells of the job")

    shop.stores.step_in("renew", beats)
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


class StoppedClock:
    """The host's clock, which only the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr("leasehold.worker.heartbeat.monotonic", lambda: self.now)


class SlowStore:
    """Answers each heartbeat, so many seconds after it was sent."""

    def __init__(self, clock: StoppedClock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds

    async def renew(self, registration: Registration, held: Sequence[Claim], lease: timedelta) -> Renewal:
        self._clock.now += self._seconds
        nothing: frozenset[Claim] = frozenset()
        return Renewal(alive=True, lost=nothing, cancels=nothing, orphans=False, strays=False, next_due=None)

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("seconds", "at", "holds"),
    [(0, 49, True), (0, 51, False), (8, 49, True), (8, 51, False)],
    ids=["within the lease", "in its last sixth", "within, answered late", "in its last sixth, answered late"],
)
async def test_a_lease_counts_from_the_send_and_ends_a_sixth_early(
    monkeypatch: pytest.MonkeyPatch, seconds: float, at: float, holds: bool
) -> None:
    """The database may have begun to count when the heartbeat was sent, and may give the jobs away at 60 s."""
    clock, beaten = StoppedClock(monkeypatch), threading.Event()

    async def open_store() -> Any:
        return SlowStore(clock, seconds)

    heart = Heartbeat(
        open_store=open_store,
        registration=Registration(WorkerId("00000000-0000-0000-0000-000000000000"), Subscription(("report",))),
        leases=Leases(busy=timedelta(seconds=60), idle=timedelta(seconds=60)),
        hooks=HeartbeatHooks(
            held=tuple,
            asks=dict,
            on_renewal=lambda renewal, sent: beaten.set(),
            on_lost=lambda why: None,
            on_broken=lambda error: None,
        ),
    )
    heart.start()
    try:
        assert await asyncio.to_thread(beaten.wait, PATIENCE.total_seconds())
        clock.now = at
        assert heart.holds is holds
    finally:
        await asyncio.to_thread(heart.stop)


async def test_no_run_begins_past_its_lease(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process stood still after its claim, and its heartbeat has not noticed it yet."""
    in_time, claimed, started = True, asyncio.Event(), list[JobId]()
    monkeypatch.setattr(Heartbeat, "holds", property(lambda heart: in_time))

    async def report(job: Job, payload: dict[str, Any]) -> None:
        started.append(job.id)

    def stand_still(claim: Verb) -> Verb:
        async def verb(registration: Registration, limit: int) -> Claimed:
            nonlocal in_time
            answer: Claimed = await claim(registration, limit)
            if answer.claims:
                in_time = False
                claimed.set()
            return answer

        return verb

    for verb in ("claim", "prepare_to_sleep"):
        shop.stores.step_in(verb, stand_still)
    async with shop.working(only(report)) as worker:
        job = await shop.enqueue()
        async with asyncio.timeout(PATIENCE.total_seconds()):
            await claimed.wait()

        async def is_forgotten() -> bool:
            state = worker.state()
            return state.worker is not None and not state.claims

        await eventually(is_forgotten, what="the end of the run")
        assert started == []
        assert (await shop.job(job)).status is Status.RUNNING


async def test_one_that_can_not_begin_says_so_and_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    def fail(beat: Coroutine[Any, Any, None]) -> None:
        beat.close()
        raise OSError("too many open files")

    monkeypatch.setattr(asyncio, "run", fail)
    heart = Heartbeat(
        open_store=lambda: pytest.fail("nothing is opened"),
        registration=Registration(WorkerId("00000000-0000-0000-0000-000000000000"), Subscription(("report",))),
        leases=Leases(),
        hooks=HeartbeatHooks(
            held=tuple,
            asks=dict,
            on_renewal=lambda renewal, sent: None,
            on_lost=said.append,
            on_broken=lambda error: said.append(str(error)),
        ),
    )
    async with asyncio.timeout(PATIENCE.total_seconds()):
        await asyncio.to_thread(heart.start)
        await asyncio.to_thread(heart.stop)
    assert said == ["too many open files"]


async def test_a_handler_that_blocks_the_loop_keeps_its_lease(shop: Shop) -> None:
    """The heartbeat has a thread of its own. The other worker would evict it, by its own heartbeat."""
    ran = 0

    async def report(job: Job, payload: Payload) -> int:
        nonlocal ran
        ran += 1
        time.sleep(3 * SHORT.busy.total_seconds())  # noqa: ASYNC251 - this is what it is about
        return job.attempt

    handlers = only(report, backoff=Steps(0))
    async with shop.working(handlers, leases=SHORT), shop.working(handlers, leases=SHORT):
        job = await shop.enqueue()
        assert (await shop.ended(job)).result == 1
    assert ran == 1
    assert await shop.statuses(job) == [SUCCEEDED]
