-- Cancels waiting jobs, and requests it for running ones. A job that is claimed at this moment shows up in neither: the
-- caller asks again.
with moment as materialized (
    select leasehold.clock() as now from leasehold.force_sync_commit()
),
wanted as materialized (
    select :tenant::text as tenant_id, id from unnest(:jobs::uuid[]) as w (id)
),
gone as (
    delete from leasehold.jobs j using wanted w
    where j.tenant_id = w.tenant_id and j.id = w.id and j.status <> 'running'
    returning j.*
),
done as (
    insert into leasehold.jobs_done (
        include(moved_columns),
        trace_context, cancel_requested_at, status, finished_at, prune_after, last_error, last_error_code
    )
    select include(moved_columns),
           trace_context, now, 'canceled', now, leasehold.prune_after(kept.retention, 'canceled', now), last_error,
           last_error_code
    from gone
    cross join moment
    left join lateral (
        select v.retention from leasehold.definition_versions v
        where v.key = gone.definition and v.version = gone.version
    ) kept on true
),
-- "Is running" is written so that no statistics apply: told that few run, the planner would read the whole table for
-- those instead of using the key (48 buffers became 23,877).
asked as (
    update leasehold.jobs j set cancel_requested_at = coalesce(j.cancel_requested_at, (select now from moment))
    from wanted w
    where j.tenant_id = w.tenant_id and j.id = w.id
      and position('running' in j.status) > 0
    returning j.id, j.worker_id
),
-- This wake is always sent, whether the worker sleeps or not.
told as materialized (
    select count(pg_notify(leasehold.channel(worker_id), 'cancel')) from (select distinct worker_id from asked) w
),
heard as materialized (
    select count(pg_notify(leasehold.channel_for_results(), '')) from (select from gone where awaited limit 1) w
)
select id, 'canceled' as answer from gone cross join heard
union all
select id, 'requested' from asked cross join told
union all
select d.id, 'ended' from wanted cross join lateral (
    select id from leasehold.jobs_done where tenant_id = wanted.tenant_id and id = wanted.id limit 1) d
