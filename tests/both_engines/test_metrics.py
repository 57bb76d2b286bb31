"""Metrics of a known mix of jobs, on each engine: every one tells what happened, after a kill -9 as well."""

import signal
from datetime import timedelta

import pytest
from tests.conftest import eventually
from tests.telemetry.samples import read_samples, read_status, samples_of
from tests.tenant_kit import ACME, HOUR, OTHER
from tests.worker import sample_handlers
from tests.worker.shop import Processes, Workplace

from leasehold import Job as AppJob
from leasehold import Leasehold, engine
from leasehold.config import VERSION
from leasehold.model.backoff import Steps
from leasehold.model.definition import Definition
from leasehold.model.job import JobId, NewJob
from leasehold.model.status import Status
from leasehold.telemetry.metric_table import METRICS
from leasehold.telemetry.metrics import Metrics
from leasehold.worker import Fail, Handlers, Job, Snooze

ON_POSTGRES = {metric.name for metric in METRICS if "Postgres only" in metric.help}


def mixed_handlers() -> Handlers:
    handlers = Handlers()

    @handlers.add(Definition("fine"))
    async def fine(job: Job, payload: object) -> None:
        """Succeeds."""

    @handlers.add(Definition("second_time", backoff=Steps(0.01)))
    async def second_time(job: Job, payload: object) -> None:
        if job.attempt == 1:
            raise ValueError("not yet")

    @handlers.add(Definition("hopeless", max_attempts=2, backoff=Steps(0.01)))
    async def hopeless(job: Job, payload: object) -> None:
        raise ValueError("never")

    @handlers.add(Definition("wrong"))
    async def wrong(job: Job, payload: object) -> None:
        raise Fail("by decision")

    @handlers.add(Definition("sleepy"))
    async def sleepy(job: Job, payload: object) -> None:
        if job.attempt == 1:
            raise Snooze(0.01)

    return handlers


async def run_mix(shop: Workplace, handlers: Handlers) -> list[JobId]:
    await shop.store.sync_definitions(handlers.definitions)
    jobs = [job for key in ("second_time", "hopeless", "wrong", "sleepy") for job in await shop.enqueue_many(1, key)]
    jobs += await shop.enqueue_many(3, "fine")
    await shop.store.tenant(OTHER).enqueue([NewJob(definition="fine")])
    await shop.all_ended(jobs)
    return jobs


async def test_each_count_of_a_known_mix_is_right(shop: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "attic")
    monkeypatch.setenv("LEASEHOLD_PROCESS_NUMBER", "3")
    handlers, metrics = mixed_handlers(), Metrics()
    async with shop.working(handlers, observe=metrics):
        await run_mix(shop, handlers)

        async def all_ended() -> bool:
            return sum(sum(ends.values()) for ends in metrics.tenants.values()) == 8

        await eventually(all_ended, what="the end of the last job")
        fleet = await shop.store.fleet_snapshot(timedelta())
    count = samples_of(metrics, fleet).total
    assert count("job_claimed_total", job_type="fine", worker_id="attic:3") == 4
    assert count("job_claimed_total") == 4 + 2 + 2 + 1 + 2
    assert count("job_completed_total", status="success") == 4 + 1 + 1
    assert count("job_completed_total", job_type="wrong", status="failed") == 1
    assert count("job_completed_total", job_type="hopeless", status="dead") == 1
    assert count("job_completed_total") == 8
    assert count("job_processing_seconds_count") == count("job_claimed_total")
    assert count("job_processing_seconds_bucket", le="+Inf") == count("job_processing_seconds_count")
    assert count("leasehold_queue_latency_seconds_count") == 8
    assert count("leasehold_attempts_total", status="succeeded") == 6
    assert count("leasehold_attempts_total", status="failed") == 1 + 2 + 1
    assert count("leasehold_attempts_total", job_type="sleepy", status="snoozed") == 1
    assert count("leasehold_retries_total") == 2
    assert count("leasehold_retries_total", job_type="sleepy") == 0
    assert count("leasehold_jobs_ended_total", tenant=ACME) == 7
    assert count("leasehold_jobs_ended_total", tenant=OTHER, status="succeeded") == 1
    assert count("leasehold_polls_total") >= 1
    assert count("job_queue_depth") == 0
    assert count("leasehold_fleet_workers") == 1
    assert count("leasehold_info", version=VERSION) == 1
    for name in ("leases_lost", "finishes_refused", "leases_reclaimed", "heartbeats_late", "database_outages"):
        assert count(f"leasehold_{name}_total") == 0


async def test_an_enqueue_that_a_key_has_refused_is_counted(shop: Workplace) -> None:
    app = Leasehold(shop.url, tenant=ACME)
    metrics = app.counts()

    @app.job
    async def report(job: AppJob) -> None: ...

    async with app.open():
        await app.store.sync_definitions(app.handlers.definitions)
        once = app.tenant(ACME).options(dedupe_key="once")
        placed = [await once.aenqueue(report) for _ in range(3)]
    assert [each.created for each in placed] == [True, False, False]
    count = samples_of(metrics).total
    assert count("leasehold_enqueued_total", job_type="report", source="manual") == 1
    assert count("leasehold_duplicates_total", job_type="report") == 2


async def test_every_metric_of_the_table_is_exposed_and_no_other(shop: Workplace, processes: Processes) -> None:
    await shop.store.sync_definitions(sample_handlers.handlers.definitions)
    worker = processes.worker("--metrics-port", "0")
    await shop.ended(await shop.enqueue("note", payload=processes.payload))
    text = await read_status(worker, "/metrics")
    exposed = {line.split()[2]: line.split()[3] for line in text.splitlines() if line.startswith("# TYPE")}
    own = {name: kind for name, kind in exposed.items() if not name.startswith("process_")}
    missing = () if shop.store.abilities.series else ON_POSTGRES
    assert own == {metric.name: metric.kind.value for metric in METRICS if metric.name not in missing}


async def test_a_job_of_a_killed_worker_is_counted_by_the_next(
    shop: Workplace, processes: Processes, kit: engine.TestKit
) -> None:
    await shop.store.sync_definitions(sample_handlers.handlers.definitions)
    job = await shop.enqueue("wait", payload=processes.payload)
    killed = processes.worker("--slots", "1", "--metrics-port", "0")
    await processes.noted("began")
    before = await read_samples(killed)
    assert before.total("job_claimed_total", job_type="wait") == 1
    assert before.total("leasehold_worker_running") == 1
    assert before.total("leasehold_queue_depth", status="running") == 1
    killed.send(signal.SIGKILL)
    await killed.code()
    processes.go()
    await kit.clock().move(HOUR)
    heir = processes.worker("--slots", "1", "--metrics-port", "0")
    assert (await shop.ended(job)).status is Status.SUCCEEDED

    async def is_counted() -> bool:
        return (await read_samples(heir)).total("job_completed_total") == 1

    await eventually(is_counted, what="the end of the job in the metrics")
    after = await read_samples(heir)
    assert after.total("leasehold_leases_reclaimed_total", job_type="wait") == 1
    assert after.total("leasehold_attempts_total", job_type="wait", status="crashed") == 1
    assert after.total("leasehold_attempts_total", job_type="wait", status="succeeded") == 1
    assert after.total("leasehold_retries_total", job_type="wait") == 1
    assert after.total("job_completed_total", job_type="wait", status="success") == 1
    assert after.total("job_claimed_total", job_type="wait") == 1
    assert after.total("leasehold_ready") == 1
