"""The events of a worker that come beside those of test_events.py: claims, wakes, polls, lost leases, lateness."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from typing import Any

from tests.conftest import eventually
from tests.worker.shop import SHORT, Payload, Shop, Verb, only

from leasehold.model.job import Claim
from leasehold.model.outcome import Raised, Succeeded
from leasehold.model.status import Status
from leasehold.telemetry import (
    AttemptEnd,
    Event,
    HeartbeatLate,
    JobClaimed,
    JobDiscarded,
    JobEnded,
    JobStarted,
    LeaseLost,
    Listener,
    Listeners,
    Polled,
    StaleFinishRefused,
    WakeReceived,
)
from leasehold.worker import Job
from leasehold.worker.heartbeat import Leases


class Heard(list[Event]):
    def __call__(self, event: Event) -> None:
        self.append(event)

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self if isinstance(event, kind)]

    async def first(self, kind: type[Any]) -> Any:
        async def heard() -> bool:
            return bool(self.of(kind))

        await eventually(heard, what=f"{kind.__name__} among {[event.event for event in self]}")
        return self.of(kind)[0]


async def done(job: Job, payload: Payload) -> None: ...


async def test_a_claimed_job_is_reported_before_its_start(shop: Shop) -> None:
    heard = Heard()
    async with shop.working(only(done), observe=heard):
        job = await shop.enqueue()
        await heard.first(JobEnded)
    claimed, started = heard.of(JobClaimed), heard.of(JobStarted)
    assert [event.job for event in claimed] == [event.job for event in started] == [job]
    assert heard.index(claimed[0]) < heard.index(started[0])
    assert (claimed[0].attempt, claimed[0].queued_at) == (1, started[0].queued_at)
    assert claimed[0].waited >= 0


async def test_a_wake_and_the_look_that_follows_are_reported(shop: Shop) -> None:
    heard = Heard()
    async with shop.working(only(done), observe=heard) as worker:
        await shop.at_rest(worker)
        first_looks = [event.reason for event in heard.of(Polled)]
        assert first_looks[0] == "start"
        heard.clear()
        await shop.enqueue()
        await heard.first(JobEnded)
        await shop.at_rest(worker)
    assert "work" in {event.channel for event in heard.of(WakeReceived)}
    (found,) = [event for event in heard.of(Polled) if event.claimed]
    assert (found.reason, found.claimed) == ("wake", 1)
    assert {event.reason for event in heard.of(Polled)} == {"wake", "busy"}


async def test_a_look_by_the_fallback_says_so(shop: Shop) -> None:
    heard = Heard()
    async with shop.working(only(done), observe=heard, notify=False, fallback=timedelta(milliseconds=100)):

        async def fallen_back() -> bool:
            return "fallback" in {event.reason for event in heard.of(Polled)}

        await eventually(fallen_back, what="a look by the fallback")


async def test_a_finish_that_the_fence_refuses_is_reported_before_the_attempt_is_discarded(shop: Shop) -> None:
    heard = Heard()

    def lose_claim_before(finish: Verb) -> Verb:
        async def verb(done: Any) -> Any:
            await shop.observer.execute("update leasehold.jobs set attempt = attempt + 1")
            return await finish(done)

        return verb

    shop.stores.step_in("finish", lose_claim_before)
    async with shop.working(only(done), observe=heard):
        job = await shop.enqueue()
        discarded = await heard.first(JobDiscarded)
    (refused,) = heard.of(StaleFinishRefused)
    assert (refused.job, refused.attempt) == (job, 1)
    assert heard.index(refused) < heard.index(discarded)
    assert heard.of(JobEnded) == []


async def test_a_lease_that_is_lost_while_the_handler_runs_is_reported_once(shop: Shop) -> None:
    began, heard = asyncio.Event(), Heard()

    async def report(job: Job, payload: Payload) -> None:
        began.set()
        await asyncio.Event().wait()

    async with shop.working(only(report), observe=heard, leases=SHORT):
        job = await shop.enqueue()
        await asyncio.wait_for(began.wait(), 30)
        await shop.observer.execute("delete from leasehold.workers")
        await heard.first(LeaseLost)
        await heard.first(JobDiscarded)
    assert [event.job for event in heard.of(LeaseLost)] == [job]


async def test_a_batch_listener_gets_every_claim_and_every_written_end_once(shop: Shop) -> None:
    class Batches(Listener):
        wants = ()

        def __init__(self) -> None:
            self.claims: list[Claim] = []
            self.ends: list[AttemptEnd] = []

        def on_claims(self, claims: Sequence[Claim]) -> None:
            self.claims += claims

        def on_ends(self, ends: Sequence[AttemptEnd]) -> None:
            self.ends += ends

    async def report(job: Job, payload: Payload) -> None:
        if payload["number"] % 10 == 0:
            raise ValueError("no")

    batches = Batches()
    async with shop.working(only(report, max_attempts=1), observe=batches, slots=20):
        jobs = [await shop.enqueue(payload={"number": number}) for number in range(40)]
        await shop.all_ended(jobs)

        async def all_told() -> bool:
            return len(batches.ends) >= 40

        await eventually(all_told, what="40 ends")
    assert sorted(claim.job for claim in batches.claims) == sorted(jobs)
    assert sorted(claim.job for claim, _, _, _ in batches.ends) == sorted(jobs)
    failed = [outcome for _, verdict, _, outcome in batches.ends if verdict.status is Status.DEAD_LETTER]
    assert len(failed) == 4
    assert all(isinstance(outcome, Raised) for outcome in failed)
    assert all(isinstance(outcome, Raised | Succeeded) for _, _, _, outcome in batches.ends)
    assert all(seconds is not None and seconds >= 0 for _, _, seconds, _ in batches.ends)


async def test_an_end_whose_answer_was_lost_is_reported_once(shop: Shop) -> None:
    """The first finish is written, its answer is lost, and asking about it fails once, too."""
    heard, asked = Heard(), 0

    def lose_answer(finish: Verb) -> Verb:
        async def verb(done: Any) -> Any:
            nonlocal asked
            answer = await finish(done)
            asked += 1
            if asked == 1:
                raise ConnectionResetError("the answer is lost")
            return answer

        return verb

    shop.stores.step_in("finish", lose_answer)
    async with shop.working(only(done), observe=heard):
        jobs = await shop.enqueue_many(5)
        await shop.all_ended(jobs)

        async def all_told() -> bool:
            return len(heard.of(JobEnded)) >= 5

        await eventually(all_told, what="5 ends")
    assert sorted(event.job for event in heard.of(JobEnded)) == sorted(jobs)


async def test_what_a_listener_puts_around_a_handler_is_seen_in_tasks_and_threads(shop: Shop) -> None:
    span: ContextVar[str] = ContextVar("span", default="none")
    seen: list[str] = []

    class Spans(Listener):
        wants = ()

        @contextmanager
        def around(self, claim: Claim) -> Iterator[None]:
            token = span.set(claim.job)
            yield
            span.reset(token)

    async def report(job: Job, payload: Payload) -> None:
        await asyncio.sleep(0)
        seen.append(await asyncio.create_task(_read(span)))

    def in_thread(job: Job, payload: Payload) -> None:
        seen.append(span.get())

    for handler in (report, in_thread):
        async with shop.working(only(handler), observe=Listeners([Spans()])):
            job = await shop.enqueue()
            await shop.ended(job)
        assert seen.pop() == job


async def _read(span: ContextVar[str]) -> str:
    return span.get()


async def test_a_heartbeat_that_is_answered_late_is_reported(shop: Shop) -> None:
    heard, beats = Heard(), 0

    def late(renew: Verb) -> Verb:
        async def verb(*arguments: Any, **named: Any) -> Any:
            nonlocal beats
            beats += 1
            if beats == 2:
                await asyncio.sleep(1.2)
            return await renew(*arguments, **named)

        return verb

    shop.stores.step_in("renew", late)
    lease = timedelta(seconds=9)  # a beat waits for a sixth of it, and then reports an outage
    async with shop.working(only(done), observe=heard, leases=Leases(lease, lease)):
        late_beat = await heard.first(HeartbeatLate)
    assert late_beat.late_by > 1
