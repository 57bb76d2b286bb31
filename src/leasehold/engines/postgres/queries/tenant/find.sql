-- A tenant's jobs by filter, newest first, below a cursor. Ids are time-ordered (uuid7) unless the caller brought one.
with matching as (
    (select id from leasehold.jobs j
     where tenant_id = :tenant and id < :below and status = any (:active::text[])
       and cardinality(:active::text[]) > 0
       and (:definitions::text[] is null or definition = any (:definitions::text[]))
       and (:source::text is null or source = :source)
       and (:correlation_id::text is null or correlation_id = :correlation_id)
       and (:created_after::timestamptz is null or queued_at >= :created_after)
       and (:created_before::timestamptz is null or queued_at < :created_before)
     order by id desc limit :limit)
    union all
    (select id from leasehold.jobs_done d
     where tenant_id = :tenant and id < :below and status = 'succeeded' and :succeeded::boolean
       and (:definitions::text[] is null or definition = any (:definitions::text[]))
       and (:source::text is null or source = :source)
       and (:correlation_id::text is null or correlation_id = :correlation_id)
       and (:created_after::timestamptz is null or queued_at >= :created_after)
       and (:created_before::timestamptz is null or queued_at < :created_before)
     order by id desc limit :limit)
    union all
    -- The few that did not succeed have an index by status: one short scan for each.
    (select d.id from unnest(:unusual::text[]) as wanted (status)
     cross join lateral (
         select id from leasehold.jobs_done
         where tenant_id = :tenant and id < :below and status = wanted.status and status <> 'succeeded'
           and (:definitions::text[] is null or definition = any (:definitions::text[]))
           and (:source::text is null or source = :source)
           and (:correlation_id::text is null or correlation_id = :correlation_id)
           and (:created_after::timestamptz is null or queued_at >= :created_after)
           and (:created_before::timestamptz is null or queued_at < :created_before)
         order by id desc limit :limit
     ) d)
),
page as materialized (
    select id from matching order by id desc limit :limit
)
select j.id, j.tenant_id, j.definition, j.version, j.status, j.scheduled_for <= (select leasehold.clock()) as due,
       j.priority, j.payload, j.attempt, j.max_attempts, j.forgiven, j.scheduled_for, j.queued_at, j.started_at,
       null::timestamptz as finished_at, j.deadline, j.worker_id, w.lease_expires_at, j.cancel_requested_at,
       null::jsonb as result, j.last_error, j.last_error_code, j.dedupe_key, j.source, j.source_ref,
       j.correlation_id, j.created_by
from page
cross join lateral (select * from leasehold.jobs where tenant_id = :tenant and id = page.id limit 1) j
left join leasehold.workers w on w.id = j.worker_id
union all
select d.id, d.tenant_id, d.definition, d.version, d.status, true,
       d.priority, d.payload, d.attempt, d.max_attempts, d.forgiven, d.scheduled_for, d.queued_at, d.started_at,
       d.finished_at, d.deadline, d.worker_id, null, d.cancel_requested_at,
       d.result, d.last_error, d.last_error_code, d.dedupe_key, d.source, d.source_ref,
       d.correlation_id, d.created_by
from page
cross join lateral (select * from leasehold.jobs_done where tenant_id = :tenant and id = page.id limit 1) d
order by id desc
