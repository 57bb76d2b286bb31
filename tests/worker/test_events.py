"""Events of a worker: each is reported once, in order, and only if it is true."""

import asyncio
import json
import logging
import os
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Annotated, Any, TypeVar

import pytest
from pydantic import Field, TypeAdapter
from tests.conftest import eventually
from tests.tenant_kit import ACME
from tests.worker.shop import SHORT, Payload, Shop, Verb, only, raising

from leasehold.errors import CannotListen, Unreachable
from leasehold.model.backoff import Steps
from leasehold.model.job import LineKind
from leasehold.model.status import AttemptStatus, Status
from leasehold.store import Subscription, WorkerFacts
from leasehold.telemetry import (
    DefinitionChanged,
    Event,
    JobDiscarded,
    JobEnded,
    JobGivenBack,
    JobLogged,
    JobReclaimed,
    JobStarted,
    WorkerJoined,
    WorkerLeft,
    WorkerListening,
    WorkerRegistrationLost,
)
from leasehold.telemetry.listeners import ALL_EVENTS, FREQUENT_EVENTS
from leasehold.worker import Fail, Job, Snooze, events

Kind = TypeVar("Kind")
READER: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="event")])


class Heard(list[Event]):
    """An observer that remembers."""

    wants = ALL_EVENTS - FREQUENT_EVENTS

    def __call__(self, event: Event) -> None:
        self.append(event)

    def of(self, kind: type[Kind]) -> list[Kind]:
        return [event for event in self if isinstance(event, kind)]

    async def first(self, kind: type[Kind]) -> Kind:
        async def heard() -> bool:
            return bool(self.of(kind))

        await eventually(heard, what=f"{kind.__name__} among {self}")
        return self.of(kind)[0]

    @property
    def names(self) -> list[str]:
        return [event.event for event in self]


@pytest.fixture
def heard() -> Heard:
    return Heard()


async def done(job: Job, payload: Payload) -> None: ...


# Workers


async def test_join_and_leave_events_carry_the_same_worker_id(shop: Shop, heard: Heard) -> None:
    async with shop.working(only(done), observe=heard, slots=7):
        joined = await heard.first(WorkerJoined)
        assert [worker.id for worker in await shop.store.workers()] == [joined.worker]
    assert (joined.pid, joined.slots, joined.definitions, joined.listens) == (os.getpid(), 7, ("report",), True)
    assert heard.names == ["definition.changed", "worker.joined", "worker.left"]
    assert heard.of(WorkerLeft)[0].worker == joined.worker


async def test_only_changed_definitions_are_reported(
    shop: Shop, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    short, long = timedelta(minutes=10), timedelta(minutes=20)
    with caplog.at_level(logging.INFO, "leasehold.worker"):
        for timeout in (short, short, long):
            async with shop.working(only(done, timeout=timeout), observe=heard):
                await heard.first(WorkerJoined)
    registered, changed = heard.of(DefinitionChanged)
    assert (registered.definition, registered.version, registered.created) == ("report", 1, True)
    assert (changed.definition, changed.version, changed.created) == ("report", 2, False)
    assert changed.text == "report: now version 2 (timeout: 0:10:00 → 0:20:00)"
    assert changed.worker == heard.of(WorkerJoined)[-1].worker
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]
    assert told == [registered.text, changed.text]


async def test_a_worker_that_does_not_listen_says_so(shop: Shop, heard: Heard) -> None:
    async with shop.working(only(done), observe=heard, notify=False):
        assert not (await heard.first(WorkerJoined)).listens


async def test_a_worker_that_finds_that_it_can_not_listen_says_so_once(shop: Shop, heard: Heard) -> None:
    def deaf(wakes: Verb) -> Verb:
        async def instead(*_: object) -> Any:
            raise CannotListen("nothing arrives.", fix="")
            yield

        return instead

    shop.stores.step_in("wakes", deaf)
    async with shop.working(only(done), observe=heard, fallback=timedelta(milliseconds=100)):
        assert not (await heard.first(WorkerListening)).listens
        await shop.ended(await shop.enqueue())
    assert heard.names.count("worker.listening") == 1


async def test_a_lost_registration_is_reported_and_followed_by_another(shop: Shop, heard: Heard) -> None:
    never = asyncio.Event()

    async def report(job: Job, payload: Payload) -> None:
        if job.attempt == 1:
            await never.wait()

    async with shop.working(only(report, backoff=Steps(0)), observe=heard, leases=SHORT):
        job = await shop.enqueue()
        await heard.first(JobStarted)
        await shop.observer.execute("delete from leasehold.workers")
        assert (await shop.ended(job)).status is Status.SUCCEEDED
    first, second = heard.of(WorkerJoined)
    assert first.worker != second.worker
    assert [lost.worker for lost in heard.of(WorkerRegistrationLost)] == [first.worker]
    assert [(lost.worker, lost.attempt) for lost in heard.of(JobDiscarded)] == [(first.worker, 1)]
    assert [(ended.worker, ended.attempt) for ended in heard.of(JobEnded)] == [(second.worker, 2)]


# Attempts


async def test_a_job_is_started_speaks_and_ends(shop: Shop, heard: Heard) -> None:
    async def report(job: Job, payload: Payload) -> None:
        job.log("reading")
        job.progress(0.5, "half")

    async with shop.working(only(report, max_attempts=3), observe=heard):
        job = await shop.enqueue()
        ended = await heard.first(JobEnded)
    assert heard.names[1:] == ["worker.joined", "job.started", "job.logged", "job.logged", "job.ended", "worker.left"]
    (started,) = heard.of(JobStarted)
    for event in (started, ended, *heard.of(JobLogged)):
        assert (event.job, event.tenant, event.definition, event.attempt) == (job, ACME, "report", 1)
        assert (event.tries, event.max_attempts) == (1, 3)
    record = await shop.job(job)
    assert record.started_at is not None
    assert started.queued_at == record.queued_at
    assert started.waited == (record.started_at - record.queued_at).total_seconds()
    assert (ended.status, ended.attempt_status) == (Status.SUCCEEDED, AttemptStatus.SUCCEEDED)
    assert (ended.error, ended.error_code, ended.retry_in) == (None, None, None)
    said = [(line.kind, line.text, line.progress) for line in heard.of(JobLogged)]
    assert said == [(LineKind.LOG, "reading", None), (LineKind.PROGRESS, "half", 0.5)]


def raises(error: Exception) -> Callable[[Job, Payload], None]:
    def report(job: Job, payload: Payload) -> None:
        raise error

    return report


@pytest.mark.parametrize(
    ("error", "attempts", "status", "attempt", "retry_in"),
    [
        (ValueError("no such row"), 2, Status.QUEUED, AttemptStatus.FAILED, 3600),
        (ValueError("no such row"), 1, Status.DEAD_LETTER, AttemptStatus.FAILED, None),
        (Fail("no such row"), 2, Status.FAILED, AttemptStatus.FAILED, None),
        (Snooze(timedelta(seconds=90)), 2, Status.QUEUED, AttemptStatus.SNOOZED, 90),
    ],
)
async def test_the_end_of_an_attempt_says_what_was_decided(
    shop: Shop,
    heard: Heard,
    error: Exception,
    attempts: int,
    status: Status,
    attempt: AttemptStatus,
    retry_in: float | None,
) -> None:
    handlers = only(raises(error), max_attempts=attempts, backoff=Steps(3600))
    async with shop.working(handlers, observe=heard):
        await shop.enqueue()
        ended = await heard.first(JobEnded)
    assert (ended.status, ended.attempt_status, ended.retry_in) == (status, attempt, retry_in)
    if not isinstance(error, Snooze):
        assert (ended.error_code, ended.error) == (type(error).__name__, "no such row")


async def test_only_a_first_attempt_says_how_long_it_waited(shop: Shop, heard: Heard) -> None:
    """A later one was due at some other time than it was enqueued."""

    async def report(job: Job, payload: Payload) -> None:
        if job.attempt == 1:
            raise ValueError("again")

    async with shop.working(only(report, backoff=Steps(0)), observe=heard):
        await shop.ended(await shop.enqueue())
    first, second = heard.of(JobStarted)
    assert first.waited is not None
    assert second.waited is None


async def test_an_end_is_told_of_only_when_it_is_written(shop: Shop, heard: Heard) -> None:
    """The first finish fails, the second is written: one end is told, after it."""
    told_too_early: list[bool] = []

    def watched(finish: Verb) -> Verb:
        async def verb(*arguments: Any) -> Any:
            told_too_early.append(bool(heard.of(JobEnded)))
            return await finish(*arguments)

        return verb

    shop.stores.step_in("finish", watched)
    shop.stores.step_in("finish", raising(Unreachable("away", fix="")))
    async with shop.working(only(done), observe=heard):
        await shop.ended(await shop.enqueue())
        await heard.first(JobEnded)
    assert told_too_early == [False]
    assert len(heard.of(JobEnded)) == 1


async def test_an_end_whose_reply_was_lost_is_an_end_and_not_discarded(shop: Shop, heard: Heard) -> None:
    """It is written by the first finish; the second is refused, because it was."""
    lost = False

    def losing(finish: Verb) -> Verb:
        async def verb(*arguments: Any) -> Any:
            nonlocal lost
            answer = await finish(*arguments)
            if not lost:
                lost = True
                raise Unreachable("the reply was lost", fix="")
            return answer

        return verb

    shop.stores.step_in("finish", losing)
    async with shop.working(only(done), observe=heard):
        await shop.enqueue()
        assert (await heard.first(JobEnded)).status is Status.SUCCEEDED
    assert heard.of(JobDiscarded) == []


async def test_a_result_that_is_fenced_off_is_discarded_and_never_ended(shop: Shop, heard: Heard) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def report(job: Job, payload: Payload) -> None:
        began.set()
        await go_on.wait()

    async with shop.working(only(report), observe=heard):
        await shop.enqueue()
        await asyncio.wait_for(began.wait(), 30)
        await shop.observer.execute("update leasehold.jobs set attempt = attempt + 1")
        go_on.set()
        assert (await heard.first(JobDiscarded)).attempt == 1
    assert heard.of(JobEnded) == []


async def test_a_job_that_runs_when_its_worker_stops_is_given_back(shop: Shop, heard: Heard) -> None:
    began, never = asyncio.Event(), asyncio.Event()

    async def report(job: Job, payload: Payload) -> None:
        began.set()
        await never.wait()

    async with shop.working(only(report), observe=heard):
        job = await shop.enqueue()
        await asyncio.wait_for(began.wait(), 30)
    assert heard.names[1:] == ["worker.joined", "job.started", "job.given_back", "worker.left"]
    assert heard.of(JobGivenBack)[0].job == job


async def test_a_reclaimed_job_is_reported_with_its_old_worker(shop: Shop, heard: Heard) -> None:
    handlers = only(done, backoff=Steps(3600))
    await shop.store.sync_definitions(handlers.definitions)
    job = await shop.enqueue()
    dead = await shop.store.join(Subscription(("report",), (ACME,)), WorkerFacts("dead", 1), SHORT.busy)
    await shop.store.claim(dead, 1)
    async with shop.working(handlers, observe=heard, leases=SHORT):
        reclaimed = await heard.first(JobReclaimed)
    assert (reclaimed.job, reclaimed.attempt, reclaimed.worker) == (job, 1, dead.worker)
    assert reclaimed.by == heard.of(WorkerJoined)[0].worker
    assert (reclaimed.status, reclaimed.error_code, reclaimed.retry_in) == (Status.QUEUED, "lease_lost", 3600)
    assert heard.of(JobStarted) == []


async def test_each_of_many_jobs_is_started_and_ended_once(shop: Shop, heard: Heard) -> None:
    async with shop.working(only(done), observe=heard):
        jobs = await shop.enqueue_many(300)
        await shop.all_ended(jobs)

        async def all_told() -> bool:
            return len(heard.of(JobEnded)) >= 300

        await eventually(all_told, what="300 ends")
    assert sorted(event.job for event in heard.of(JobStarted)) == sorted(jobs)
    assert sorted(event.job for event in heard.of(JobEnded)) == sorted(jobs)


# Observers


async def test_an_observer_that_raises_does_no_harm_and_is_logged_once(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(event: Event) -> None:
        raise RuntimeError("no ears")

    with caplog.at_level(logging.ERROR, "leasehold"):
        async with shop.working(only(done), observe=broken):
            records = await shop.all_ended(await shop.enqueue_many(20))
    assert {record.status for record in records} == {Status.SUCCEEDED}
    (complaint,) = [text for text in caplog.messages if "raised" in text]
    assert complaint.endswith(
        "broken raised at definition.changed; it is told on, further errors of it are not logged"
    )


async def test_without_an_observer_no_event_is_made(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    for kind in (DefinitionChanged, WorkerJoined, WorkerLeft, JobStarted, JobLogged, JobEnded):
        monkeypatch.setattr(events, kind.__name__, lambda **fields: made.append(fields))
    async with shop.working(only(done)):
        assert (await shop.ended(await shop.enqueue())).status is Status.SUCCEEDED
    assert made == []


# JSON


async def test_an_event_becomes_one_line_of_json_that_can_be_read_again(shop: Shop, heard: Heard) -> None:
    async def report(job: Job, payload: Payload) -> None:
        job.log("two\nlines")
        raise ValueError("no such row")

    async with shop.working(only(report, max_attempts=1), observe=heard):
        job = await shop.enqueue()
        await heard.first(JobEnded)
    assert [READER.validate_json(event.as_json()) for event in heard] == list(heard)
    assert all("\n" not in event.as_json() for event in heard)
    ended = json.loads(heard.of(JobEnded)[0].as_json())
    assert (ended["event"], ended["job"], ended["status"]) == ("job.ended", job, "dead_letter")
    assert datetime.fromisoformat(ended["at"]).tzinfo is not None
