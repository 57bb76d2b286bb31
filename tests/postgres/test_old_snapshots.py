"""An old snapshot is held, so dead index entries stay: a claim reads no more for past jobs.

Buffers are counted, not seconds: each claim statement is explained, rolled back, and then sent.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import orjson
import pytest
from tests.conftest import Raw
from tests.postgres.race_tools import Connections, parts_of
from tests.postgres_parts import StoreInParts
from tests.store.bench import LEASE, Bench
from tests.tenant_kit import ACME, DAY, HOUR, SECOND

from leasehold.engines.postgres.claim import claim as claiming
from leasehold.engines.postgres.claim.positions import ClaimPositions, DueMark, FullLooks, HeartbeatLooks
from leasehold.engines.postgres.database import Link
from leasehold.model.job import NewJob
from leasehold.model.limits import Limits, Scope, ScopeKind
from leasehold.model.outcome import Succeeded
from leasehold.store import Store

ROUNDS, JOBS = 12, 200
CAP = 40
TENANT, DEFINITION = Scope(ScopeKind.TENANT, ACME), Scope(ScopeKind.DEFINITION, "report")
CAPPED = pytest.mark.parametrize("scope", [TENANT, DEFINITION], ids=["tenant", "definition"])


@pytest.fixture
async def old_snapshot(bench: Bench, connections: Connections) -> Raw:
    """A transaction that keeps all row versions of this database from now on."""
    connection = await connections.open()
    await connection.execute("begin isolation level repeatable read")
    await connection.execute("select count(*) from leasehold.jobs")
    return connection


def make_full_looks_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes one second pass between full looks at future jobs, however quick they are."""
    monkeypatch.setattr(DueMark, "CHEAP", -1.0)
    monkeypatch.setattr(DueMark, "MANY_DEAD_ROWS", 0)


async def test_claims_of_delayed_jobs_read_no_more_with_time(
    bench: Bench, old_snapshot: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_full_looks_rare(monkeypatch)
    buffers = reading(bench.store, "jobs_future", monkeypatch)
    rounds = []
    for _ in range(ROUNDS):
        await bench.jobs.enqueue([NewJob(definition="report", delay=HOUR)] * JOBS)
        await bench.move_clock(HOUR + SECOND)
        buffers.clear()
        while claims := (await bench.store.claim(await bench.worker(), 50)).claims:
            await bench.finish_all([(claim, Succeeded()) for claim in claims])
        # The first look of a round may be the full one.
        rounds.append(min(buffers))
    assert rounds[-1] <= 2 * rounds[1] + 10, rounds


async def test_a_late_commit_with_a_past_due_time_is_claimed(
    bench: Bench, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_full_looks_rare(monkeypatch)
    now = [1000.0]
    parts_of(bench.store).monotonic = lambda: now[0]
    producer = await connections.open()
    async with producer.transaction():
        (late,) = await bench.jobs.enqueue([NewJob(definition="report", delay=SECOND)], within=producer)
        await bench.move_clock(HOUR)
        assert await bench.claim() == []
    assert (await bench.store.claim(await bench.worker(), 10)).claims == []
    now[0] += DueMark.LONGEST
    assert await bench.claimed_jobs() == [late.id]


async def test_slow_looks_hide_no_due_job_where_few_rows_are_dead(
    bench: Bench, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy machine is slow, too: there, a job that was paused when it came due waited for up to a second."""
    monkeypatch.setattr(DueMark, "CHEAP", -1.0)
    parts_of(bench.store).monotonic = lambda: 1000.0
    producer = await connections.open()
    async with producer.transaction():
        (late,) = await bench.jobs.enqueue([NewJob(definition="report", delay=SECOND)], within=producer)
        await bench.move_clock(HOUR)
        assert await bench.claim() == []
    assert await bench.claimed_jobs() == [late.id]


async def test_a_worker_that_goes_to_sleep_claims_a_job_that_committed_late(
    bench: Bench, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_full_looks_rare(monkeypatch)
    parts_of(bench.store).monotonic = lambda: 1000.0
    producer = await connections.open()
    async with producer.transaction():
        (late,) = await bench.jobs.enqueue([NewJob(definition="report", delay=SECOND)], within=producer)
        await bench.move_clock(HOUR)
        assert await bench.claim() == []
    settled = await bench.store.prepare_to_sleep(await bench.worker(), 10)
    assert [claim.job for claim in settled.claims] == [late.id]


@CAPPED
async def test_claims_under_a_cap_read_no_more_with_time(
    scope: Scope, bench: Bench, old_snapshot: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cap_long_ago(bench, scope, monkeypatch)
    registration = await bench.join("report")
    buffers = reading(bench.store, "jobs_running", monkeypatch)
    rounds = []
    for _ in range(ROUNDS):
        await bench.enqueue_many(JOBS)
        buffers.clear()
        while claims := await bench.claim(50, registration):
            await bench.finish_all([(claim, Succeeded()) for claim in claims])
        rounds.append(max(buffers))
    assert rounds[-1] <= 2 * rounds[1] + 10, rounds


@CAPPED
async def test_a_job_that_runs_long_counts_among_many_short_ones(
    scope: Scope, bench: Bench, observer: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cap_long_ago(bench, scope, monkeypatch)
    await bench.running()
    await bench.enqueue_many(JOBS)
    for _ in range(3):
        claims = await bench.claim(30)
        await bench.finish_all([(claim, Succeeded()) for claim in claims])
    assert await running_from(observer) is not None
    await bench.move_clock(HOUR)
    assert len(await bench.claim(JOBS)) == CAP - 1


@CAPPED
async def test_a_clock_that_is_set_back_hides_no_running_job(
    scope: Scope, bench: Bench, observer: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cap_long_ago(bench, scope, monkeypatch)
    await bench.enqueue_many(JOBS)
    for _ in range(3):
        claims = await bench.claim(30)
        await bench.finish_all([(claim, Succeeded()) for claim in claims])
    assert await running_from(observer) is not None
    await bench.move_clock(-SECOND * 60)
    assert len(await bench.claim(JOBS)) == CAP
    assert await bench.claim(JOBS) == []


async def test_a_cap_that_was_just_set_counts_all_running_jobs(
    bench: Bench, observer: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim that began before may still be under way."""
    monkeypatch.setattr(claiming, "CAPPED_BETWEEN_ADVANCES", 0)
    await bench.store.limit(TENANT, Limits(max_running=CAP))
    await bench.running()
    await bench.running()
    assert await running_from(observer) is None


@CAPPED
async def test_a_cap_that_is_set_again_counts_all_running_jobs(
    scope: Scope, bench: Bench, observer: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cap_long_ago(bench, scope, monkeypatch, advance_after=0)
    await bench.running()
    assert await running_from(observer) is not None
    await bench.store.limit(scope, Limits(max_running=CAP))
    assert await running_from(observer) is None


async def test_claims_that_find_nothing_read_no_more_with_time(
    bench: Bench, old_snapshot: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FullLooks, "CHEAP", -1.0)
    monkeypatch.setattr(FullLooks, "MANY_DEAD_ROWS", 0)
    monkeypatch.setattr(ClaimPositions, "READ_AGAIN", 10)
    now = [1000.0]
    parts_of(bench.store).monotonic = lambda: now[0]
    registration = await bench.join(tenants=None, lease=365 * DAY)
    buffers = reading(bench.store, "jobs_ready", monkeypatch, "fleet/claim_few")
    rounds = []
    for _ in range(ROUNDS):
        await bench.enqueue_many(JOBS)
        while claims := await bench.claim(50, registration):
            await bench.finish_all([(claim, Succeeded()) for claim in claims])
        now[0] += 2 * FullLooks.LONGEST
        await bench.claim(1, registration)
        buffers.clear()
        await bench.claim(1, registration)
        rounds += buffers
    assert len(rounds) == ROUNDS
    assert rounds[-1] <= 2 * rounds[1] + 10, rounds


async def test_heartbeats_read_no_more_with_time(
    bench: Bench, old_snapshot: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_thorough_heartbeats_rare(bench, monkeypatch)
    buffers = reading_of_heartbeats(bench.store, monkeypatch)
    registration, rounds = await bench.worker(), []
    for _ in range(ROUNDS):
        await bench.jobs.enqueue([NewJob(definition="report", delay=HOUR)] * JOBS)
        await bench.move_clock(HOUR + SECOND)
        while claims := await bench.claim(50):
            await bench.finish_all([(claim, Succeeded()) for claim in claims])
        buffers.clear()
        await bench.store.renew(registration, [], 365 * DAY)
        await bench.store.renew(registration, [], 365 * DAY)
        rounds.append(buffers[-1])
    assert rounds[-1] <= 2 * rounds[1] + 10, rounds


async def test_a_quick_heartbeat_tells_of_the_claims_of_one_it_evicts(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_thorough_heartbeats_rare(bench, monkeypatch)
    assert not (await bench.store.renew(await bench.worker(), [], 365 * DAY)).orphans
    await bench.running(registration=await bench.join(lease=HOUR / 2))
    await bench.move_clock(HOUR)
    assert (await bench.store.renew(await bench.worker(), [], 365 * DAY)).orphans


async def test_claims_of_a_worker_that_left_are_found_in_a_minute(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = make_thorough_heartbeats_rare(bench, monkeypatch)
    await bench.store.renew(await bench.worker(), [], 365 * DAY)
    registration = await bench.join()
    await bench.running(registration=registration)
    await bench.store.leave(registration)
    assert not (await bench.store.renew(await bench.worker(), [], 365 * DAY)).orphans
    now[0] += HeartbeatLooks.LONGEST
    assert (await bench.store.renew(await bench.worker(), [], 365 * DAY)).orphans


async def test_a_claim_unknown_to_its_worker_is_found_in_a_minute(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = make_thorough_heartbeats_rare(bench, monkeypatch)
    await bench.store.renew(await bench.worker(), [], LEASE)
    await bench.running()
    await bench.move_clock(LEASE - SECOND)
    await bench.store.renew(await bench.worker(), [], LEASE)
    await bench.move_clock(2 * SECOND)
    assert not (await bench.store.renew(await bench.worker(), [], LEASE)).strays
    now[0] += HeartbeatLooks.LONGEST
    assert (await bench.store.renew(await bench.worker(), [], LEASE)).strays


async def test_a_quick_heartbeat_tells_of_an_overdue_job(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    make_thorough_heartbeats_rare(bench, monkeypatch)
    await bench.enqueue(delay=SECOND)
    await bench.store.renew(await bench.worker(), [], 365 * DAY)
    await bench.move_clock(HOUR)
    for _ in range(2):
        next_due = (await bench.store.renew(await bench.worker(), [], 365 * DAY)).next_due
        assert next_due is not None
        assert next_due < timedelta()


async def test_heartbeats_are_thorough_if_few_rows_are_dead(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HeartbeatLooks, "CHEAP", -1.0)
    await bench.store.renew(await bench.worker(), [], 365 * DAY)
    registration = await bench.join()
    await bench.running(registration=registration)
    await bench.store.leave(registration)
    assert (await bench.store.renew(await bench.worker(), [], 365 * DAY)).orphans


async def cap_long_ago(
    bench: Bench, scope: Scope, monkeypatch: pytest.MonkeyPatch, *, advance_after: int = JOBS // 4
) -> None:
    monkeypatch.setattr(claiming, "CAPPED_BETWEEN_ADVANCES", advance_after)
    await bench.store.limit(scope, Limits(max_running=CAP))
    await bench.move_clock(HOUR)


async def running_from(observer: Raw) -> datetime | None:
    moment: datetime | None = await observer.fetchval("select running_from from leasehold.limits")
    return moment


def make_thorough_heartbeats_rare(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Lets a minute pass between thorough heartbeats; returns the moment that the store takes for now."""
    monkeypatch.setattr(HeartbeatLooks, "CHEAP", -1.0)
    monkeypatch.setattr(HeartbeatLooks, "MANY_DEAD_ROWS", 0)
    now = [1000.0]
    parts_of(bench.store).monotonic = lambda: now[0]
    return now


def reading(
    store: Store, index: str, monkeypatch: pytest.MonkeyPatch, statement: str = "fleet/claim_next_tenants"
) -> list[int]:
    """The buffers that each claim statement reads by this index, from now on."""
    engine = parts_of(store)
    return _explaining(engine, engine.links.claim, statement, (index,), monkeypatch)


def reading_of_heartbeats(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    engine = parts_of(store)
    return _explaining(engine, engine.links.heartbeat, "fleet/renew", ("jobs_running", "jobs_future"), monkeypatch)


def _explaining(
    engine: StoreInParts, link: Link, statement_name: str, indexes: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> list[int]:
    found: list[int] = []
    fetch: Callable[..., Any] = link.fetch

    async def explained(name: str, /, **values: Any) -> list[asyncpg.Record]:
        if name == statement_name:
            statement = engine.database.statement(name)
            async with link.session() as connection:
                transaction = connection.transaction()
                await transaction.start()
                text = f"explain (analyze, buffers, format json) {statement.text}"
                ((plan,),) = await connection.fetch(text, *statement.arguments(values))
                await transaction.rollback()
            found.append(_buffers(orjson.loads(plan)[0]["Plan"], indexes))
        answer: list[asyncpg.Record] = await fetch(name, **values)
        return answer

    monkeypatch.setattr(link, "fetch", explained)
    return found


def _buffers(node: dict[str, Any], indexes: tuple[str, ...]) -> int:
    own = node["Shared Hit Blocks"] + node["Shared Read Blocks"] if node.get("Index Name") in indexes else 0
    return int(own) + sum(_buffers(child, indexes) for child in node.get("Plans", ()))
