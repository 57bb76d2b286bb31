-- Queues ended jobs again if their attempt is still the one that the caller saw, and wakes workers that can run them.
with moment as materialized (
    select leasehold.clock() as now from leasehold.force_sync_commit()
),
seen as materialized (
    select :tenant::text as tenant_id, * from unnest(:jobs::uuid[], :attempts::integer[]) as s (job_id, attempt)
),
ended as materialized (
    select d.* from seen
    cross join lateral (
        select * from leasehold.jobs_done d
        where d.tenant_id = seen.tenant_id and d.id = seen.job_id and d.attempt = seen.attempt limit 1
        for update
    ) d
),
free as (
    select e.* from ended e
    where not e.dedupe_held
       or not exists (
           select from leasehold.dedupe_holds h
           where h.tenant_id = :tenant and h.dedupe_hash = e.dedupe_hash and h.job_id <> e.id
             and (h.expires_at is null or h.expires_at > (select now from moment)))
),
-- Insert first, delete what was inserted: a job whose dedupe key is taken stays where it is.
queued as (
    insert into leasehold.jobs (
        id, scheduled_for, queued_at, deadline, version, attempt, max_attempts, forgiven, priority, ready, tenant_id,
        definition, status, payload, source, source_ref, correlation_id, created_by, dedupe_held, dedupe_hash,
        dedupe_key, last_error, last_error_code, trace_context
    )
    select id, now, queued_at, null, version, attempt, max_attempts, attempt, priority, true, tenant_id, definition,
           'queued', payload, source, source_ref, correlation_id, created_by, dedupe_held, dedupe_hash,
           dedupe_key, last_error, last_error_code,
           -- The first attempt of the retry is linked to the one before, if that was traced.
           leasehold.trace_after(trace_context, (
               select substring(a.details ->> 'span' from '^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$')
               from leasehold.job_attempts a
               where a.tenant_id = :tenant and a.job_id = free.id and a.attempt = free.attempt limit 1))
    from free cross join moment
    order by dedupe_hash, id
    on conflict do nothing
    returning tenant_id, id, definition
),
succeeded as (
    insert into leasehold.job_attempts (tenant_id, job_id, attempt, status, worker_id, started_at, finished_at)
    select e.tenant_id, e.id, e.attempt, 'succeeded', e.worker_id, e.started_at, e.finished_at
    from ended e join queued q on q.id = e.id
    where e.status = 'succeeded'
    on conflict do nothing
),
moved as (
    delete from leasehold.jobs_done d using queued
    where d.tenant_id = queued.tenant_id and d.id = queued.id
),
woken as materialized (
    select leasehold.wake(array_agg(lane.definition), array_agg(:tenant::text), array_agg(now))
    from (select distinct definition from queued) lane cross join moment
)
select id, 'queued' as answer from queued cross join woken
union all
select id, 'duplicate' from ended where id not in (select id from queued)
union all
select seen.job_id, 'changed' from seen cross join lateral (
    select from leasehold.jobs_done d
    where d.tenant_id = seen.tenant_id and d.id = seen.job_id and d.attempt <> seen.attempt limit 1) d
union all
select seen.job_id, 'active' from seen cross join lateral (
    select from leasehold.jobs j where j.tenant_id = seen.tenant_id and j.id = seen.job_id limit 1) j
