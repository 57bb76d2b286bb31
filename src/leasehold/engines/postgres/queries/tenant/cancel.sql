-- Cancels what waits, and asks the workers of what runs. A job that is claimed at this very moment shows up in
-- neither: the caller asks again.
with moment as materialized (
    select leasehold.clock() as now from leasehold.durably()
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
        id, scheduled_for, queued_at, started_at, finished_at, cancel_requested_at, deadline, prune_after, worker_id,
        version, attempt, max_attempts, forgiven, priority, tenant_id, definition, status, payload, source,
        source_ref, correlation_id, created_by, dedupe_held, dedupe_hash, dedupe_key, last_error, last_error_code
    )
    select g.id, scheduled_for, queued_at, started_at, now, now, deadline,
           leasehold.prune_after(v.retention, 'canceled', now), null, g.version, attempt, g.max_attempts, forgiven,
           g.priority, tenant_id, definition, 'canceled', payload, source, source_ref, correlation_id,
           created_by, dedupe_held, dedupe_hash, dedupe_key, last_error, last_error_code
    from gone g
    cross join moment
    left join leasehold.definition_versions v on v.key = g.definition and v.version = g.version
),
-- "Is running" is said so that no statistics speak of it: told that few run, the planner would rather read the whole
-- table for those than go by the key (48 buffers became 23,877).
asked as (
    update leasehold.jobs j set cancel_requested_at = coalesce(j.cancel_requested_at, (select now from moment))
    from wanted w
    where j.tenant_id = w.tenant_id and j.id = w.id
      and position('running' in j.status) > 0
    returning j.id, j.worker_id
),
-- This wake is never suppressed: it is sent whether the worker sleeps or not.
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
