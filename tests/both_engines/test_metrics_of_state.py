"""Gauges beside the state that they tell, on each engine: of a worker's loop and handlers, and of the whole fleet."""

from datetime import timedelta
from time import monotonic

from tests.both_engines.conftest import NOON
from tests.conftest import eventually
from tests.telemetry.samples import samples_of
from tests.tenant_kit import ACME, HOUR, OTHER, SECOND
from tests.worker.shop import QUICKLY, Payload, Workplace, only
from tests.worker.test_loop_watch import block
from tests.worker.test_stuck import Stuck
from tests.worker.test_stuck import margin as margin
from tests.worker.test_stuck import stuck as stuck

from leasehold import engine
from leasehold.model.definition import Definition
from leasehold.model.job import NewJob
from leasehold.store import Subscription, WorkerFacts
from leasehold.telemetry.metrics import Metrics
from leasehold.worker import Job
from leasehold.worker.loop_watch import LIMIT

NOW = timedelta()


async def test_a_handler_that_blocks_the_loop_is_counted(shop: Workplace) -> None:
    """The loop is blocked within the time in which the test waits, and for longer than the limit of its watch."""

    async def report(job: Job, payload: Payload) -> None:
        block()

    async def calm(job: Job, payload: Payload) -> None: ...

    handlers, metrics = only(report), Metrics()
    handlers.add(Definition("calm"))(calm)

    async def is_counted() -> bool:
        seen = samples_of(metrics)
        lag = seen.total("leasehold_event_loop_lag_seconds")
        return seen.total("leasehold_event_loop_blocked_total") > 0 and lag >= LIMIT

    async with shop.working(handlers, observe=metrics):
        await shop.ended(await shop.enqueue("calm"))
        began = monotonic()
        await shop.enqueue()
        await eventually(is_counted, what="the blocked loop in the metrics")
        seen, elapsed = samples_of(metrics), monotonic() - began
    assert seen.total("leasehold_event_loop_blocked_total", job_type="report") == 1
    assert seen.total("leasehold_event_loop_blocked_total", job_type="calm") == 0
    assert LIMIT <= seen.total("leasehold_event_loop_blocked_seconds_total") <= elapsed
    assert LIMIT <= seen.total("leasehold_event_loop_lag_seconds") <= elapsed


async def test_stuck_handlers_are_counted_until_they_end(shop: Workplace, stuck: Stuck) -> None:
    async with shop.working(only(stuck.swallow, timeout=QUICKLY, max_attempts=1), slots=3) as worker:

        def stuck_handlers() -> float:
            return samples_of(Metrics(), state=worker.process_state()).total("leasehold_worker_stuck")

        async def none_is_stuck() -> bool:
            return stuck_handlers() == 0

        assert stuck_handlers() == 0
        for _ in range(2):
            await shop.ended(await shop.enqueue())
        seen = samples_of(Metrics(), state=worker.process_state())
        await stuck.end()
        await eventually(none_is_stuck, what="the end of the stuck handlers")
    assert seen.total("leasehold_worker_stuck") == 2
    assert seen.total("leasehold_worker_slots") == 3
    assert seen.total("leasehold_ready") == 1


async def test_gauges_of_the_fleet_tell_its_state(shop: Workplace, kit: engine.TestKit) -> None:
    """One worker with seven slots serves `report`. Jobs of `alone` have waited for 90 s at the measurement."""
    clock = kit.clock()
    await clock.freeze(NOON)
    await shop.store.sync_definitions([Definition("report"), Definition("alone")])
    await shop.store.join(Subscription(("report",)), WorkerFacts("host", 1, slots=7), HOUR)
    await shop.enqueue_many(2, "alone")
    await shop.enqueue("alone", delay=HOUR)
    await shop.store.tenant(OTHER).enqueue([NewJob(definition="alone")])
    await clock.move(90 * SECOND)
    measured = samples_of(Metrics(), await shop.store.fleet_snapshot(NOW))
    await shop.enqueue("alone")
    await clock.move(40 * SECOND)
    read = samples_of(Metrics(), await shop.store.fleet_snapshot(HOUR))
    for seen, age in ((measured, 0), (read, 40)):
        assert seen.total("leasehold_snapshot_age_seconds") == age
        assert seen.total("job_queue_depth", job_type="alone") == 4
        assert seen.total("job_queue_depth", job_type="report") == 0
        assert seen.total("leasehold_queue_depth", tenant=ACME, status="ready") == 2
        assert seen.total("leasehold_queue_depth", tenant=ACME, status="scheduled") == 1
        assert seen.total("leasehold_queue_depth", tenant=OTHER) == 1
        assert round(seen.total("leasehold_oldest_queued_seconds", job_type="alone"), 3) == 90
        assert seen.total("leasehold_fleet_workers") == 1
        assert seen.total("leasehold_fleet_slots") == 7
        assert seen.total("leasehold_unserved_definitions") == 1
        assert seen.total("leasehold_schedule_overdue_seconds") == 0
