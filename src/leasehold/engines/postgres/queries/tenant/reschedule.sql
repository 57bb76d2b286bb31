-- Moves waiting jobs in time or priority, and wakes workers that can run them.
with moment as materialized (
    select leasehold.clock() as now from leasehold.force_sync_commit()
),
wanted as materialized (
    select :tenant::text as tenant_id, id from unnest(:jobs::uuid[]) as w (id)
),
moved as (
    update leasehold.jobs j
    set scheduled_for = coalesce(
            -- In seconds: see enqueue_plain_jobs.sql.
            (select now from moment) + extract(epoch from :delay::interval) * interval '1 second', j.scheduled_for),
        ready = coalesce(:delay::interval <= interval '0', j.ready),
        priority = coalesce(:priority::smallint, j.priority),
        seq = nextval('leasehold.jobs_seq')
    from wanted w
    where j.tenant_id = w.tenant_id and j.id = w.id and j.status = 'queued'
    returning j.id, j.definition, j.scheduled_for
),
woken as materialized (
    select leasehold.wake(array_agg(definition), array_agg(:tenant::text), array_agg(due))
    from (select definition, min(scheduled_for) as due from moved group by definition) lane
)
select id, 'rescheduled' as answer from moved cross join woken
union all
select j.id, 'not_waiting' from wanted cross join lateral (
    select id from leasehold.jobs
    where tenant_id = wanted.tenant_id and id = wanted.id and status <> 'queued' limit 1) j
union all
select d.id, 'not_waiting' from wanted cross join lateral (
    select id from leasehold.jobs_done where tenant_id = wanted.tenant_id and id = wanted.id limit 1) d
