"""Jobs that triggers make are counted as enqueued, on each engine, by the process that makes them."""

from tests.scheduler.timetable import ACME, HOUR, MINUTE, Timetable
from tests.telemetry.samples import samples_of
from tests.worker.shop import Workplace

from leasehold import Job, Leasehold
from leasehold.model.decision import DecisionKind
from leasehold.model.event import NewEvent
from leasehold.model.job import Source
from leasehold.model.trigger import ALL, NewTrigger
from leasehold.operations.reports import report_emit
from leasehold.scheduler import fire_due_schedules
from leasehold.store import Filter
from leasehold.telemetry import Listeners
from leasehold.telemetry.metrics import Metrics

FOLDER = "provider.folder.updated"


async def test_an_emit_counts_the_jobs_that_it_makes(shop: Workplace) -> None:
    app = Leasehold(shop.url, tenant=ACME)
    metrics = app.counts()

    @app.on(FOLDER, tenant=ACME)
    @app.job
    async def report(job: Job) -> None: ...

    async with app.open():
        await app.store.sync_definitions(app.handlers.definitions)
        await app.handlers.sync_triggers(app.store)
        made = await app.aemit(FOLDER, {"path": "/a"})
        await app.aemit("nothing.listens")
    assert len(made.jobs) == 1
    count = samples_of(metrics).total
    assert count("leasehold_enqueued_total", job_type="report", source="event") == 1
    assert count("leasehold_enqueued_total") == 1
    assert count("leasehold_events_emitted_total") == 2


async def test_an_event_that_is_deduped_is_counted_as_no_job(shop: Workplace, timetable: Timetable) -> None:
    rule = NewTrigger(label="sync", definition="report", event=FOLDER, dedupe_window=HOUR)
    await shop.store.triggers(ACME).add(rule)
    metrics = Metrics()
    for _ in range(3):
        report_emit(Listeners([metrics]), await shop.store.events(ACME).emit(NewEvent(FOLDER, {})))
    count = samples_of(metrics).total
    assert count("leasehold_enqueued_total", source="event") == 1
    assert count("leasehold_trigger_decisions_total", kind=DecisionKind.DEDUPED.value) == 2


async def test_a_scheduler_counts_the_jobs_that_it_makes(timetable: Timetable) -> None:
    await timetable.store.add_tenant(ACME)
    await timetable.add(catch_up="all")
    await timetable.add(ALL, label="for all")
    metrics = Metrics()
    await timetable.clock.move(3 * HOUR + MINUTE)
    await fire_due_schedules(timetable.store, listeners=Listeners([metrics]))
    jobs = (await timetable.store.tenant(ACME).find(Filter(source=Source.SCHEDULE), None, 100)).jobs
    assert len(jobs) == 3 + 1
    count = samples_of(metrics).total
    assert count("leasehold_enqueued_total", job_type="report", source="schedule") == len(jobs)
    assert count("leasehold_enqueued_total") == len(jobs)
