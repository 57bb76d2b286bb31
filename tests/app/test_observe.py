"""Listeners of an app hear producers, the worker in its process, ticks, triggers and schedulers."""

from typing import Any

import asyncpg
from tests.app.helpers import ended
from tests.conftest import eventually

from leasehold import Job, Leasehold, Source, WhileActive, WorkerSettings, every
from leasehold.telemetry import (
    Event,
    EventEmitted,
    JobClaimed,
    JobEnded,
    JobEnqueued,
    Listener,
    TriggerDecided,
    WorkerJoined,
)


class Heard(list[Event]):
    def __call__(self, event: Event) -> None:
        self.append(event)

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self if isinstance(event, kind)]


def observed(app: Leasehold) -> tuple[Any, Heard]:
    heard = app.observe(Heard())

    async def report(job: Job, number: int = 0) -> None: ...

    return app.job(report), heard


def test_a_blocking_enqueue_is_reported_with_its_job(app: Leasehold) -> None:
    report, heard = observed(app)
    acme = app.tenant("acme")
    placed = acme.options(dedupe_key="once").enqueue(report)
    again = acme.options(dedupe_key="once").enqueue_key("report", {})
    told = heard.of(JobEnqueued)
    assert [(event.job, event.count, event.created) for event in told] == [(placed.id, 1, 1), (again.id, 1, 0)]
    assert {(event.tenant, event.definition, event.source) for event in told} == {("acme", "report", Source.MANUAL)}


async def test_an_awaited_enqueue_is_reported_also_within_a_transaction(app: Leasehold, database_url: str) -> None:
    report, heard = observed(app)
    connection = await asyncpg.connect(database_url)
    async with app.open(), connection.transaction():
        first = await app.tenant("acme").aenqueue(report)
        second = await app.tenant("acme").within(connection).aenqueue(report)
        third = await app.tenant("acme").within(connection).aenqueue_key("report", {})
    await connection.close()
    assert [event.job for event in heard.of(JobEnqueued)] == [first.id, second.id, third.id]


def test_a_bulk_enqueue_is_one_event_for_each_definition(app: Leasehold) -> None:
    report, heard = observed(app)
    other = app.job(key="other")(lambda job, number: None)
    jobs = [definition.bind(number=number) for number in range(10) for definition in (report, report, other)]
    app.tenant("acme").enqueue_many(jobs, chunk=7)
    app.tenant("acme").enqueue_many([report.bind(number=1)] * 3)
    assert [(event.definition, event.count, event.created, event.job) for event in heard.of(JobEnqueued)] == [
        ("report", 20, 20, None),
        ("other", 10, 10, None),
        ("report", 3, 3, None),
    ]


def test_a_bulk_enqueue_counts_new_jobs_apart_from_duplicates(app: Leasehold) -> None:
    report, heard = observed(app)
    acme = app.tenant("acme").options(dedupe=WhileActive())
    acme.enqueue_many([report.bind(number=number) for number in (1, 2)])
    acme.enqueue_many([report.bind(number=number) for number in (1, 2, 3)])
    assert [(event.count, event.created) for event in heard.of(JobEnqueued)] == [(2, 2), (3, 1)]


async def test_an_emit_is_reported_once_with_its_decisions(app: Leasehold) -> None:
    report, heard = observed(app)
    app.on("shop.sold", tenant="acme")(report)
    async with app.open():
        await app.tenant("acme").aenqueue(report)  # registers the definition
        await app.handlers.sync_triggers(app.store)
        acme = app.tenant("acme").options(id="0197c000-0000-7000-8000-000000000009")
        emitted = await acme.aemit("shop.sold", {})
        await acme.aemit("shop.sold", {})
    (told,) = heard.of(EventEmitted)
    assert (told.tenant, told.name, told.jobs) == ("acme", "shop.sold", 1)
    (decided,) = heard.of(TriggerDecided)
    assert (decided.kind, decided.source, decided.job, decided.lag) == ("fired", Source.EVENT, *emitted.jobs, None)


async def test_a_worker_in_the_apps_own_process_is_heard(database_url: str) -> None:
    heard = Heard()
    app = Leasehold(database_url, observe=heard)

    @app.job
    async def report(job: Job) -> None: ...

    async with app.open(worker=WorkerSettings(slots=3)):
        placed = await app.tenant("acme").aenqueue(report)
        await ended(app, placed)
    assert heard.of(WorkerJoined)[0].slots == 3
    assert [event.job for event in heard.of(JobClaimed)] == [placed.id]
    assert [event.job for event in heard.of(JobEnqueued)] == [placed.id]
    assert [event.job for event in heard.of(JobEnded)] == [placed.id]


def test_a_tick_is_heard_and_counts_as_before(app: Leasehold) -> None:
    report, heard = observed(app)
    placed = app.tenant("acme").enqueue(report)
    assert app.tick().succeeded == 1
    assert [event.job for event in heard.of(JobEnded)] == [placed.id]


async def test_a_schedule_that_fires_in_a_worker_is_heard_with_its_lag(app: Leasehold) -> None:
    report, heard = observed(app)

    app.schedule(every("1s"), tenant="acme", payload={"number": 1})(report)

    async with app.open(worker=True):

        async def has_fired() -> bool:
            return any(event.kind == "fired" for event in heard.of(TriggerDecided))

        await eventually(has_fired, what="a fire")
    fired = next(event for event in heard.of(TriggerDecided) if event.kind == "fired")
    assert (fired.tenant, fired.source) == ("acme", Source.SCHEDULE)
    assert fired.lag is not None
    assert fired.job is not None


def test_a_listener_of_a_producer_that_raises_does_not_fail_the_enqueue(app: Leasehold) -> None:
    class Broken(Listener):
        def __call__(self, event: Event) -> None:
            raise RuntimeError("no ears")

    report, heard = observed(app)
    app.observe(Broken())
    assert app.tenant("acme").enqueue(report).created
    assert len(heard.of(JobEnqueued)) == 1
