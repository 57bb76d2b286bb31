"""The engine against a plain model, in random histories: whatever happens, both must agree.

The model's clock counts hours; every delay and lease is whole hours, so that the seconds that the machine takes in
real life never decide anything.
"""

import asyncio
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from tests.engines_under_test import HISTORIES
from tests.store.bench import EngineUnderTest, all_jobs, keyed
from tests.store.model import Model, ModelJob, ModelRegistration
from tests.tenant_kit import HOUR

from leasehold.errors import RegistrationLost
from leasehold.model.backoff import Steps
from leasehold.model.definition import Definition
from leasehold.model.job import Claim, EnqueueResult, JobRecord, LogLine, NewJob, tenant_id
from leasehold.model.outcome import (
    Canceled,
    LeaseLost,
    Outcome,
    Raised,
    Released,
    Snoozed,
    Succeeded,
    TimedOut,
    decide,
)
from leasehold.model.status import AttemptStatus, Status
from leasehold.store import Registration, Store, Subscription, WorkerFacts

DEFINITION = Definition("machine", max_attempts=2, backoff=Steps(3600, 7200))
LEASE_HOURS = 4
EVERYTHING = 10_000

OUTCOMES: list[Outcome] = [
    Succeeded('"done"'),
    Raised("Unlucky", "no jitter"),
    Raised("Unlucky", "no jitter", final=True),
    TimedOut(HOUR),
    Snoozed(HOUR),
    Released(),
    Canceled(),
]


T = TypeVar("T")
_tenants = count()

VERBS = {
    "claim": 5,
    "finish": 5,
    "finish_several": 1,
    "enqueue": 4,
    "wait": 3,
    "renew": 2,
    "evict": 2,
    "crash": 1,
    "leave": 1,
    "say": 2,
    "cancel": 2,
    "retry": 3,
    "reschedule": 1,
}
"""The steps, and how often each is taken."""


class EngineAgainstModel(RuleBasedStateMachine):
    """Each history is a new tenant in the same database.

    A step is a verb and two numbers, which the verb takes for its choices: among all jobs, registrations and claims
    that
    there ever were, mostly those for which something can happen, and often enough the others, which must be refused.
    There is one rule because Hypothesis would switch half of several off, and a history without claims tells little.
    """

    def __init__(self, engine: EngineUnderTest, store: Store, runner: asyncio.Runner) -> None:
        super().__init__()
        self.model = Model()
        self.store, self.runner, self.move_clock = store, runner, engine.move_clock
        self.tenant = tenant_id(f"machine-{next(_tenants)}")
        self.jobs = store.tenant(self.tenant)
        self.registrations: list[Registration] = []
        self.claims: list[Claim] = []
        self.agreed = False

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(call)

    @initialize()
    def begin(self) -> None:
        self._join()
        for first in (0, 3, 6):
            self.enqueue(first, 2)

    @rule(
        verb=st.sampled_from([verb for verb, weight in VERBS.items() for _ in range(weight)]),
        pick=st.integers(0, 1000),
        choice=st.integers(0, 1000),
    )
    def step(self, verb: str, pick: int, choice: int) -> None:
        self.agreed = False
        getattr(self, verb)(pick, choice)

    # Steps of the tenant

    def enqueue(self, pick: int, choice: int) -> None:
        """One to three jobs in one call."""
        wanted = [
            (
                (50, 100)[number % 2],
                (0, 0, 0, 1, 3)[number % 5],
                (None, None, None, "one", "two", "three", "four")[number % 7],
            )
            for number in range(pick, pick + 1 + choice % 3)
        ]
        batch = [
            NewJob(
                definition=DEFINITION.key,
                priority=priority,
                delay=delay * HOUR,
                dedupe=keyed(key=key) if key else None,
            )
            for priority, delay, key in wanted
        ]
        for placed, (priority, delay, key) in zip(self.run(self.jobs.enqueue(batch)), wanted, strict=True):
            if holder := self.model.holder_of(key):
                assert placed == EnqueueResult(holder.id, created=False)
            else:
                assert placed.created
                assert placed.id not in self.model.jobs
                self.model.enqueued(placed.id, priority, delay, key)

    def cancel(self, pick: int, choice: int) -> None:
        likely = Status.RUNNING if choice % 2 else Status.QUEUED
        job = self._job(pick, lambda job: job.status is likely)
        expected = self.model.canceled(job)
        assert self.run(self.jobs.cancel([job.id])) == {job.id: expected}

    def retry(self, pick: int, choice: int) -> None:
        job = self._job(pick, lambda job: not job.active)
        seen = job.attempt + 1 if choice % 4 == 3 else job.attempt
        expected = self.model.retried(job, seen)
        assert self.run(self.jobs.retry({job.id: seen})) == {job.id: expected}

    def reschedule(self, pick: int, choice: int) -> None:
        job = self._job(pick, lambda job: job.status is Status.QUEUED)
        delay = (0, 0, 1, 3)[choice % 4]
        expected = self.model.rescheduled(job, delay)
        assert self.run(self.jobs.reschedule([job.id], delay * HOUR)) == {job.id: expected}

    # Steps of workers

    def claim(self, pick: int, choice: int) -> None:
        registration, limit = self._registration(pick), 1 + choice % 4
        try:
            claims = self.run(self._claim_like_a_worker(registration, limit))
        except RegistrationLost:
            assert not self.model.must_be_alive(registration)
            return
        assert not self.model.must_be_gone(registration)
        ready = {job.id: job for job in self.model.ready()}
        assert len(claims) == min(limit, len(ready))
        taken = [ready.pop(claim.job) for claim in claims]
        assert_right_order(taken, list(ready.values()), priorities=self.store.abilities.priorities)
        for claim, job in zip(claims, taken, strict=True):
            assert (claim.attempt, claim.worker) == (job.attempt + 1, registration.worker)
            assert claim.tries == job.attempt + 1 - job.free_attempts
            self.model.claimed(claim)
        self.claims += claims

    def finish(self, pick: int, choice: int) -> None:
        if claim := self._claim(pick):
            self._finish([(claim, OUTCOMES[choice % len(OUTCOMES)])])

    def finish_several(self, pick: int, choice: int) -> None:
        picked = {self._claim(pick + number): OUTCOMES[(choice + number) % len(OUTCOMES)] for number in range(4)}
        self._finish([(claim, outcome) for claim, outcome in picked.items() if claim])

    def say(self, pick: int, choice: int) -> None:
        if claim := self._claim(pick):
            number, live = 1 + choice % 3, self.model.is_live(claim)
            refused = self.run(self.store.append_log([(claim, LogLine(number, f"line {number}"))]))
            assert refused == (frozenset() if live else {claim})
            if live:
                self.model.jobs[claim.job].lines.setdefault(claim.attempt, set()).add(number)

    def renew(self, pick: int, _choice: int) -> None:
        registration = self._registration(pick)
        made = [claim for claim in self.claims if claim.worker == registration.worker]
        renewal = self.run(self.store.renew(registration, made, LEASE_HOURS * HOUR))
        self.model.evicted(spare=registration)
        if not renewal.alive:
            assert not self.model.must_be_alive(registration)
            self.model.registrations[registration.worker].ended = True
            return
        assert not self.model.must_be_gone(registration)
        self.model.registrations[registration.worker].expires_at = self.model.now + LEASE_HOURS
        live = {claim for claim in made if self.model.is_live(claim)}
        assert renewal.lost == set(made) - live
        assert renewal.cancels == {claim for claim in live if self.model.jobs[claim.job].cancel_requested}
        assert renewal.orphans == bool(self.model.orphans())

    def leave(self, pick: int, _choice: int) -> None:
        """Joins another worker in its place; the one that left may still try to claim, renew and finish."""
        registration = self._registration(pick)
        self.run(self.store.leave(registration))
        self.model.registrations[registration.worker].ended = True
        self._join()

    def crash(self, pick: int, _choice: int) -> None:
        """It is never heard of again, and what it holds must come back some day. Another one joins in its place."""
        self.registrations.remove(self._registration(pick))
        self._join()

    def evict(self, _pick: int, choice: int) -> None:
        orphans = [claim for claim in self.run(self.store.evict(EVERYTHING)) if claim.tenant == self.tenant]
        self.model.evicted()
        assert {(claim.job, claim.attempt, claim.worker) for claim in orphans} == self.model.orphans()
        if choice % 4 != 3:
            self._finish([(claim, LeaseLost()) for claim in orphans])

    def wait(self, _pick: int, choice: int) -> None:
        hours = (1, 1, 2, 5)[choice % 4]
        self.run(self.move_clock(hours * HOUR))
        self.model.now += hours

    # Invariants after every step

    @invariant()
    def every_job_stands_where_the_model_says(self) -> None:
        records = self.run(all_jobs(self.jobs))
        assert len(records) == len(self.model.jobs)
        for record in records:
            self._compare(record, self.model.jobs[record.id])

    @invariant()
    def every_live_claim_is_held_once_and_by_its_own_registration(self) -> None:
        for registration in self.registrations:
            live = [
                claim for claim in self.claims if claim.worker == registration.worker and self.model.is_live(claim)
            ]
            held = self.run(self.store.held(registration))
            assert len(held) == len(live)
            assert set(held) == set(live)
        self.agreed = True

    def teardown(self) -> None:
        """Looks back on every job, and leaves no claim behind, which the next history would see as an orphan."""
        try:
            if self.agreed:
                for job in self.model.jobs.values():
                    self.run(self._look_back(job))
        finally:
            self.run(self._clear_up())

    # How it is done

    def _job(self, pick: int, likely: Callable[[ModelJob], bool]) -> ModelJob:
        """Three of four times one of the likely ones, if there are any."""
        everyone = list(self.model.jobs.values())
        fitting = [job for job in everyone if likely(job)]
        among = fitting if fitting and pick % 4 != 3 else everyone
        return among[pick % len(among)]

    def _registration(self, pick: int) -> Registration:
        """Three of four times the newest."""
        return self.registrations[pick // 4 % len(self.registrations)] if pick % 4 == 3 else self.registrations[-1]

    def _claim(self, pick: int) -> Claim | None:
        """Three of four times one that holds, if there is any."""
        live = [claim for claim in self.claims if self.model.is_live(claim)]
        among = live if live and pick % 4 != 3 else self.claims
        return among[pick % len(among)] if among else None

    def _join(self) -> None:
        serves = Subscription((DEFINITION.key,), (self.tenant,))
        registration = self.run(self.store.join(serves, WorkerFacts("machine", 1), LEASE_HOURS * HOUR))
        assert registration.worker not in self.model.registrations
        self.model.registrations[registration.worker] = ModelRegistration(registration, self.model.now + LEASE_HOURS)
        self.registrations.append(registration)

    async def _claim_like_a_worker(self, registration: Registration, limit: int) -> list[Claim]:
        """Again while there may be more."""
        claims: list[Claim] = []
        for _ in range(10):
            claimed = await self.store.claim(registration, limit - len(claims))
            claims += claimed.claims
            if len(claims) == limit or not claimed.more:
                break
        return claims

    def _finish(self, done: list[tuple[Claim, Outcome]]) -> None:
        verdicts = [(claim, decide(outcome, claim, jitter=0)) for claim, outcome in done]
        refused = self.run(self.store.finish(verdicts))
        assert refused == {claim for claim, verdict in verdicts if not self.model.finished(claim, verdict)}

    def _compare(self, record: JobRecord, job: ModelJob) -> None:
        assert (record.status, record.attempt, record.priority) == (job.status, job.attempt, job.priority)
        if job.active:
            assert (record.worker, record.free_attempts) == (job.worker, job.free_attempts)
        if job.status is Status.QUEUED:
            assert record.due == (job.due_at <= self.model.now)

    async def _look_back(self, job: ModelJob) -> None:
        attempts = await self.jobs.attempts(job.id)
        running = [(job.attempt, AttemptStatus.RUNNING)] if job.status is Status.RUNNING else []
        assert [(attempt.number, attempt.status) for attempt in attempts] == job.history + running
        for attempt in attempts:
            lines = await self.jobs.lines(job.id, attempt.number)
            assert [line.number for line in lines] == sorted(job.lines.get(attempt.number, set()))

    async def _clear_up(self) -> None:
        for each in self.model.registrations.values():
            await self.store.leave(each.registration)
        orphans = [claim for claim in await self.store.evict(EVERYTHING) if claim.tenant == self.tenant]
        await self.store.finish([(claim, decide(Canceled(), claim, jitter=0)) for claim in orphans])


def assert_right_order(taken: list[ModelJob], left: list[ModelJob], *, priorities: bool) -> None:
    """Checks the order by priority, where the engine has it, and then age, among jobs that never waited.

    A job that waited for its time is promoted when it is due, give or take a moment, and has its place from then on.
    """

    def place_of(job: ModelJob) -> tuple[int, int]:
        return job.priority if priorities else 0, job.number

    places = [place_of(job) for job in taken if not job.waited]
    assert places == sorted(places)
    assert all(place < place_of(job) for place in places for job in left if not job.waited)


@pytest.mark.timeout(300)  # hundreds of requests to the emulator
def test_the_engine_and_the_model_agree_on_every_history(engine: EngineUnderTest, engine_name: str) -> None:
    with asyncio.Runner() as runner:
        store = runner.run(engine.open_again())

        class Histories(EngineAgainstModel):
            def __init__(self) -> None:
                super().__init__(engine, store, runner)

        try:
            runner.run(store.sync_definitions([DEFINITION]))
            run_state_machine_as_test(
                Histories,
                settings=settings(
                    max_examples=HISTORIES[engine_name],
                    stateful_step_count=30,
                    deadline=None,
                    derandomize=True,
                    database=None,
                ),
            )
        finally:
            runner.run(store.close())
