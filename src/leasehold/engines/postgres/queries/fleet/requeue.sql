-- Queues claims again: for a retry, after a snooze, or given back. Leaves jobs that are to be canceled. Returns
-- numbers.
with moment as materialized (
    select leasehold.clock() as now from leasehold.force_sync_commit()
),
verdict as materialized (
    select * from unnest(
        :tenants::text[], :jobs::uuid[], :attempts::integer[], :workers::uuid[], :batches::bigint[],
        :attempt_statuses::text[], :delays::interval[], :forgiven::integer[], :errors::text[], :error_codes::text[],
        :exit_codes::integer[], :details::text[]
    ) with ordinality as v (
        tenant_id, job_id, attempt, worker_id, claim_batch, attempt_status, delay, forgiven, error, error_code,
        exit_code, details, number
    )
),
-- Ranges instead of plain equality: see finish.sql. No detour by ctid either: a row that is marked as awaited meanwhile
-- must still be found, in its newest version.
queued as (
    update leasehold.jobs j
    set status = 'queued', worker_id = null,
        ready = v.delay <= interval '0',
        -- In seconds: on the day that clocks change, a day of Postgres has 23 hours or 25, by its session's zone.
        scheduled_for = (select now from moment) + extract(epoch from v.delay) * interval '1 second',
        forgiven = j.forgiven + v.forgiven,
        last_error = coalesce(v.error, j.last_error),
        last_error_code = coalesce(v.error_code, j.last_error_code),
        -- A worker that traces writes the span first. No other details are looked through.
        trace_context = case when v.details like '{"span":"%' then leasehold.trace_after(
            j.trace_context, substring(v.details from '^.{9}(00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2})"'))
            else j.trace_context end
    from verdict v
    where j.tenant_id = any (array[v.tenant_id]) and j.id between v.job_id and v.job_id
      and j.attempt = v.attempt and j.worker_id = v.worker_id and j.claim_batch = v.claim_batch
      and j.cancel_requested_at is null
    returning j.tenant_id, j.id, j.attempt, v.worker_id, j.definition, j.scheduled_for, j.started_at,
              v.attempt_status, v.error, v.error_code, v.exit_code, v.details, v.number
),
attempts as (
    insert into leasehold.job_attempts (
        tenant_id, job_id, attempt, status, worker_id, started_at, finished_at, exit_code, error, error_code, details
    )
    select tenant_id, id, attempt, attempt_status, worker_id, started_at, now, exit_code, error, error_code,
           coalesce(details, '{}')::jsonb
    from queued cross join moment
),
lane as (
    select definition, tenant_id, min(scheduled_for) as due from queued group by definition, tenant_id
)
select array_agg(number) as held,
       (select leasehold.wake(array_agg(definition), array_agg(tenant_id), array_agg(due)) from lane),
       (select leasehold.wake_for_freed(array_agg(distinct tenant_id), array_agg(distinct definition)) from queued)
from queued
