"""Pruning: jobs whose retention is over go in batches, however many there are."""

import pytest
from tests.conftest import Raw
from tests.postgres.race_tools import parts_of
from tests.store.bench import Bench
from tests.tenant_kit import ACME, DAY, HOUR

from leasehold.engines.postgres import upkeep
from leasehold.model.dedupe import Dedupe, Within
from leasehold.model.event import NewEvent
from leasehold.model.job import LogLine, NewJob
from leasehold.model.schedule import Every
from leasehold.model.trigger import NewTrigger


async def test_keys_that_are_held_no_longer_all_go_at_once(bench: Bench, observer: Raw) -> None:
    jobs = [NewJob(definition="report", dedupe=Dedupe(f"key-{number}", Within(HOUR))) for number in range(10)]
    await bench.jobs.enqueue(jobs)
    await bench.move_clock(2 * HOUR)
    await bench.store.prune(3)
    assert await observer.fetchval("select count(*) from leasehold.dedupe_holds where expires_at is not null") == 0
    assert await observer.fetchval("select count(*) from leasehold.jobs where tenant_id = 'acme'") == 10


async def test_no_prune_statement_deletes_more_lines_than_its_bound(
    bench: Bench, observer: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "LINES_AT_ONCE", 4)
    await observer.execute(COUNT_DELETED_LINES)
    for lines in (10, 0, 3):
        claim = await bench.running()
        await bench.store.append_log([(claim, LogLine(number, "said")) for number in range(1, lines + 1)])
        await bench.succeed(claim)
    await bench.move_clock(31 * DAY)
    assert await bench.store.prune(100) == 3
    deleted = [row["lines"] for row in await observer.fetch("select lines from test_deleted_lines")]
    assert (sum(deleted), max(deleted)) == (13, 4)


async def test_a_job_stays_while_any_of_its_lines_stays(bench: Bench, observer: Raw) -> None:
    claim = await bench.running()
    await bench.store.append_log([(claim, LogLine(1, "said"))])
    await bench.succeed(claim)
    await bench.succeeded()
    await bench.move_clock(31 * DAY)
    ((pruned,),) = await parts_of(bench.store).links.upkeep.fetch("fleet/prune", limit=100)
    assert pruned == 1
    assert await bench.texts(claim) == ["said"]


async def test_decisions_and_events_are_kept_for_30_days(bench: Bench, observer: Raw) -> None:
    trigger = await bench.store.triggers(ACME).add(NewTrigger(label="a", definition="report", event="shop.opened"))
    tomorrow = Every("3650d", await bench.store.now() + DAY)
    await bench.store.triggers(ACME).add(NewTrigger(label="b", definition="report", schedule=tomorrow))
    await bench.store.events(ACME).emit(NewEvent("shop.opened", {}))
    await observer.execute("select leasehold.emit('acme', 'shop.opened')")  # waits for a scheduler
    await bench.move_clock(29 * DAY)
    await bench.store.schedules.fire_due()
    await bench.store.prune(10)
    assert await kept(observer) == (2, 3)
    await observer.execute("select leasehold.emit('acme', 'shop.opened')")
    await bench.move_clock(2 * DAY)
    await bench.store.prune(10)
    assert await kept(observer) == (2, 2)
    assert [each.kind for each in await bench.store.triggers(ACME).decisions(trigger.id, 10)] == ["fired"]


async def kept(observer: Raw) -> tuple[int, int]:
    """How many events and decisions there are."""
    count = "select (select count(*) from leasehold.events), (select count(*) from leasehold.trigger_decisions)"
    ((events, decisions),) = await observer.fetch(count)
    return events, decisions


async def test_names_of_workers_that_have_gone_are_pruned_later(bench: Bench, observer: Raw) -> None:
    gone, living = await bench.join(), await bench.join(lease=500 * DAY)
    await bench.store.leave(gone)
    await bench.move_clock(399 * DAY)
    await bench.store.prune(10)
    names = "select array_agg(id::text) from leasehold.worker_names where id = any ($1::uuid[])"
    both = [gone.worker, living.worker]
    assert set(await observer.fetchval(names, both)) == set(both)
    await bench.move_clock(2 * DAY)
    await bench.store.prune(10)
    assert await observer.fetchval(names, both) == [living.worker]


async def test_an_attempt_without_a_name_shows_the_workers_id(bench: Bench, observer: Raw) -> None:
    await bench.succeed(claim := await bench.running())
    await observer.execute("delete from leasehold.worker_names")
    (attempt,) = await bench.jobs.attempts(claim.job)
    assert (attempt.worker_name, attempt.host) == (claim.worker, None)


COUNT_DELETED_LINES = """
    create table public.test_deleted_lines (lines bigint);
    create function note_deleted_lines() returns trigger language plpgsql as $$
    begin
        insert into public.test_deleted_lines select count(*) from deleted;
        return null;
    end $$;
    create trigger note_deleted_lines after delete on leasehold.job_lines
        referencing old table as deleted for each statement execute function note_deleted_lines();
"""
