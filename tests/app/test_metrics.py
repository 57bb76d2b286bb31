"""The metrics of an app in the registry of its own process."""

from prometheus_client import CollectorRegistry, generate_latest
from tests.conftest import eventually

from leasehold import Job, Leasehold


def make_app(url: str) -> Leasehold:
    app = Leasehold(url)

    @app.job(key="greet")
    async def greet(job: Job, name: str) -> None:
        """Greets."""

    return app


def registry_of(app: Leasehold) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(app.metrics())
    return registry


async def test_producers_and_the_worker_in_the_process_are_counted(database_url: str) -> None:
    app = make_app(database_url)
    registry = registry_of(app)
    greet = app.definition("greet")
    assert greet is not None
    async with app.open(worker=True):
        job = await app.tenant("acme").aenqueue(greet, name="Ada")
        await job.aresult()

        async def is_counted() -> bool:
            text = generate_latest(registry)
            return (
                b'job_completed_total{job_type="greet",status="success"} 1.0' in text
                and b"leasehold_fleet_workers 1.0" in text
            )

        await eventually(is_counted, what="the job in the metrics, read on the loop")
    assert b'leasehold_enqueued_total{job_type="greet",source="manual"} 1.0' in generate_latest(registry)
    app.close()


async def test_a_read_on_the_loop_waits_for_no_database(database_url: str) -> None:
    app = make_app(database_url)
    registry = registry_of(app)
    async with app.open():
        assert b"leasehold_fleet_workers" not in generate_latest(registry)

        async def has_come() -> bool:
            return b"leasehold_fleet_workers 0.0" in generate_latest(registry)

        await eventually(has_come, what="the figures that the read before has asked for")
    app.close()


def test_a_second_collector_counts_nothing_twice(database_url: str) -> None:
    app = make_app(database_url)
    registry_of(app)
    registry = registry_of(app)
    with app.database():
        app.tenant("acme").emit("customer.created")
    assert b"leasehold_events_emitted_total 1.0" in generate_latest(registry)
    app.close()
