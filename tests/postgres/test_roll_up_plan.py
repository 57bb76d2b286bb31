"""A roll-up reads the jobs of its minutes, however many others there are."""

from datetime import timedelta

import orjson
from tests.conftest import Raw
from tests.postgres.plan_database import BIG, DEEP

# Jobs that ended at a moment before now, one in ten with an attempt that failed. One in twenty is kept for ever.
ENDED = """
    with ended as (
        insert into leasehold.jobs_done (
            id, scheduled_for, queued_at, started_at, finished_at, prune_after, version, attempt, max_attempts,
            forgiven, priority, dedupe_held, tenant_id, definition, status, payload, source, worker_id)
        select gen_random_uuid(), at, at, at, at, case when n % 20 > 0 then at + interval '30 days' end, 1, 1, 5,
               0, 0, false, $3::text, $4::text, 'failed', '{}', 'manual', gen_random_uuid()
        from generate_series(1, $1::integer) n
        cross join lateral (select now() - $2::interval - n * interval '1 ms' as at) moment
        returning *
    )
    insert into leasehold.job_attempts (tenant_id, job_id, attempt, status, started_at, finished_at)
    select tenant_id, id, 1, 'failed', started_at, finished_at from ended where random() < 0.1
"""
WAITING = """
    insert into leasehold.jobs (
        id, scheduled_for, queued_at, version, max_attempts, priority, ready, tenant_id, definition, status, payload,
        source)
    select ('01900001-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, now(), now() - interval '1 day', 1, 5, 0,
           true, $2::text, $3::text, 'queued', '{}', 'manual'
    from generate_series($1::integer + 1, 2 * $1::integer) n
"""
DEFINED = """
    insert into leasehold.definitions (key, version, created_at, updated_at) values ('deep', 1, now(), now());
    insert into leasehold.definition_versions (
        key, version, description, timeout, max_attempts, backoff, priority, retention, on_exhausted, created_at)
    values ('deep', 1, '', interval '1 minute', 5, '{}', 0, '{"failed": "2592000 seconds"}', 'failed', now())
"""
TWO_MINUTES_AGO = "update leasehold.series_progress set minutes = date_trunc('minute', now()) - interval '2 minutes'"
# The depth of the ready jobs is counted up to 10,000; these are fewer.
FEW, MANY, ENDED_BEFORE = 10, 3_000, 20_000
FACTOR, SLACK = 2, 200


async def buffers(observer: Raw) -> int:
    """Returns the buffers of a roll-up of two minutes, which is undone. The first run reads the catalog, too."""
    for _ in range(2):
        transaction = observer.transaction()
        await transaction.start()
        await observer.execute(TWO_MINUTES_AGO)
        shown = await observer.fetchval("explain (analyze, buffers, format json) select leasehold.roll_up()")
        added = await observer.fetchval("select count(*) from leasehold.series_minutes")
        await transaction.rollback()
    assert added
    plan = orjson.loads(shown)[0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


async def test_a_roll_up_reads_only_the_jobs_of_its_minutes(observer: Raw) -> None:
    await observer.execute(DEFINED)
    await observer.execute(ENDED, 50, timedelta(minutes=1), BIG, DEEP)
    await observer.execute(WAITING, FEW, BIG, DEEP)
    await observer.execute("vacuum analyze")
    before = await buffers(observer)
    await observer.execute(ENDED, ENDED_BEFORE, timedelta(days=1), BIG, DEEP)
    await observer.execute(WAITING, MANY, BIG, DEEP)
    await observer.execute("vacuum analyze")
    assert await buffers(observer) <= FACTOR * before + SLACK
