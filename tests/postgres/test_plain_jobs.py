"""Plain jobs: which jobs are plain, and how many of them go into a statement."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.conftest import Raw
from tests.postgres.race_tools import Connections, blocked, heard_so_far, sleepers
from tests.store.bench import BROUGHT_ID, Bench, all_jobs, keyed
from tests.store.wake_listener import asleep

from leasehold.engines.postgres import plain_jobs as module
from leasehold.engines.postgres.plain_jobs import PlainJobs, has_only_defaults
from leasehold.model.dedupe import Dedupe
from leasehold.model.job import NewJob, Source
from leasehold.model.payload import encode
from leasehold.model.pinned_jobs import PinnedJobs

JOB = NewJob(definition="report")
MOMENT = datetime(2030, 1, 1, tzinfo=UTC)
# Everything that a job can be told, beside its payload.
OTHERS: dict[str, Any] = {
    "definition": "email",
    "version": 2,
    "id": BROUGHT_ID,
    "priority": 7,
    "max_attempts": 2,
    "delay": timedelta(seconds=1),
    "at": MOMENT,
    "deadline": MOMENT,
    "dedupe": keyed(),
    "source": Source.SYSTEM,
    "source_ref": "r",
    "correlation_id": "c",
    "created_by": "b",
    "trace_context": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
}


def numbered(count: int) -> list[NewJob]:
    return [replace(JOB, payload={"number": number}) for number in range(count)]


def test_everything_that_a_job_can_be_told_is_tried_here() -> None:
    # `fits` is not told to the engine: it marks a payload that was validated.
    assert OTHERS.keys() | {"payload", "fits"} == NewJob.__dataclass_fields__.keys()


@pytest.mark.parametrize("name", OTHERS)
def test_one_that_differs_in_more_than_its_payload_is_not_alike(name: str) -> None:
    assert PlainJobs.of([JOB, JOB]) is not None
    assert PlainJobs.of([JOB, replace(JOB, **{name: OTHERS[name]})]) is None


@pytest.mark.parametrize("name", ["id", "dedupe"])
def test_a_job_with_a_key_or_an_id_is_not_plain(name: str) -> None:
    assert PlainJobs.of([replace(JOB, **{name: OTHERS[name]})] * 2) is None


def test_pinned_jobs_are_sent_with_their_version_and_fields() -> None:
    plain = PlainJobs.of(PinnedJobs(numbered(2), {"report": 3}, {"priority": 7}))
    assert plain is not None
    columns = plain.columns()
    assert (columns["version"], columns["priority"]) == (3, 7)
    assert columns["payloads"].splitlines() == ['{"number":0}', '{"number":1}']


def test_pinned_jobs_keep_a_version_of_their_own() -> None:
    pinned = PinnedJobs([JOB, replace(JOB, version=2)], {"report": 3}, {})
    assert [job.version for job in pinned] == [3, 2]
    assert PlainJobs.of(pinned) is None


@pytest.mark.parametrize("name", ["id", "dedupe"])
def test_pinned_jobs_that_get_a_key_or_an_id_are_not_plain(name: str) -> None:
    assert PlainJobs.of(PinnedJobs(numbered(2), {"report": 1}, {name: OTHERS[name]})) is None


def test_a_part_of_pinned_jobs_is_pinned() -> None:
    part = PinnedJobs(numbered(3), {"report": 3}, {})[1:]
    assert [(job.version, job.payload["number"]) for job in part] == [(3, 1), (3, 2)]


@pytest.mark.parametrize("name", sorted(OTHERS.keys() - {"definition", "version", "source", "trace_context"}))
def test_one_of_which_more_is_said_does_not_take_the_shortest_way(name: str) -> None:
    traced = {"trace_context": OTHERS["trace_context"]}
    assert has_only_defaults(replace(JOB, payload={"x": 1}, version=3, source=Source.EVENT, **traced))
    assert not has_only_defaults(replace(JOB, **{name: OTHERS[name]}))


async def test_jobs_beyond_one_statement_are_one_transaction(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = numbered(10)
    monkeypatch.setattr(module, "MAX_SIZE", 3 * len(encode(jobs[0].payload)))
    alike = PlainJobs.of(jobs)
    assert alike is not None
    assert [len(piece.jobs) for piece in alike.pieces()] == [3, 3, 3, 1]
    placed = await bench.jobs.enqueue(jobs)
    assert [(await bench.job(each.id)).payload["number"] for each in placed] == list(range(10))
    assert await bench.claimed_jobs() == [each.id for each in placed]


async def test_such_a_transaction_may_be_the_callers(
    bench: Bench, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_SIZE", 1)
    connection = await connections.open()
    transaction = connection.transaction()
    await transaction.start()
    assert len(await bench.jobs.enqueue(numbered(3), within=connection)) == 3
    await transaction.rollback()
    assert await all_jobs(bench.jobs) == []


# Wakes


async def test_a_look_for_sleepers_is_younger_than_its_lock(observer: Raw, connections: Connections) -> None:
    """One goes to sleep while the producer waits for the lock: seen by an older snapshot, it would sleep on."""
    sleeping, producing = await connections.open(), await connections.open()
    transaction = sleeping.transaction()
    await transaction.start()
    await sleeping.execute("select pg_advisory_xact_lock(leasehold.sleep_key())")
    waking = producing.fetchval("select leasehold.wake_for_one('report', 'acme', null)")
    woken = asyncio.create_task(waking)
    await blocked(observer)
    await sleeping.execute(
        "insert into leasehold.sleepers (worker_id, definitions) values (gen_random_uuid(), '{report}')"
    )
    await sleeping.execute("select leasehold.may_sleep('{report}')")
    await transaction.commit()
    await woken
    assert await sleepers(observer) == []


async def test_a_bulk_transaction_blocks_no_one_and_wakes_once(bench: Bench, observer: Raw) -> None:
    registration = await bench.worker()
    async with asleep(bench.store, registration) as listener:
        async with bench.jobs.bulk_transaction() as bulk:
            for _ in range(3):
                await bulk.enqueue(numbered(5))
            assert await observer.fetchval("select pg_try_advisory_xact_lock(leasehold.sleep_key())")
            assert len(await observer.fetch("select from leasehold.sleepers for update nowait")) == 1
        assert await heard_so_far(observer, {registration: listener}) == {registration: 1}


async def test_jobs_with_keys_hold_the_lock_of_sleepers_no_earlier(bench: Bench, observer: Raw) -> None:
    registration = await bench.worker()
    async with asleep(bench.store, registration) as listener:
        async with bench.jobs.bulk_transaction() as bulk:
            await bulk.enqueue([replace(job, dedupe=Dedupe(f"key-{n}")) for n, job in enumerate(numbered(5))])
            assert await observer.fetchval("select pg_try_advisory_xact_lock(leasehold.sleep_key())")
        assert await heard_so_far(observer, {registration: listener}) == {registration: 1}


async def test_a_postponed_job_wakes_a_worker_that_sleeps_longer(bench: Bench, observer: Raw) -> None:
    registration = await bench.worker()
    async with asleep(bench.store, registration) as listener:
        async with bench.jobs.bulk_transaction() as bulk:
            await bulk.enqueue([replace(job, delay=timedelta(hours=1)) for job in numbered(2)])
            await bulk.enqueue([replace(job, delay=timedelta(minutes=1)) for job in numbered(2)])
        assert await heard_so_far(observer, {registration: listener}) == {registration: 1}


async def test_one_that_is_rolled_back_wakes_nobody(bench: Bench, observer: Raw) -> None:
    registration = await bench.worker()

    async def fails() -> None:
        async with bench.jobs.bulk_transaction() as bulk:
            await bulk.enqueue(numbered(5))
            raise RuntimeError

    async with asleep(bench.store, registration) as listener:
        with pytest.raises(RuntimeError):
            await fails()
        assert await heard_so_far(observer, {registration: listener}) == {}
        assert await sleepers(observer) == [registration.worker]
