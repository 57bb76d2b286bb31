-- One job, wherever it is; in one statement, since between two it could move from the one table to the other.
select j.id, j.tenant_id, j.definition, j.version, j.status, j.scheduled_for <= (select leasehold.clock()) as due,
       j.priority, j.payload, j.attempt, j.max_attempts, j.forgiven, j.scheduled_for, j.queued_at, j.started_at,
       null::timestamptz as finished_at, j.deadline, j.worker_id, w.lease_expires_at, j.cancel_requested_at,
       null::jsonb as result, j.last_error, j.last_error_code, j.dedupe_key, j.source, j.source_ref,
       j.correlation_id, j.created_by
from unnest(:jobs::uuid[]) as wanted (id)
cross join lateral (select * from leasehold.jobs where tenant_id = :tenant and id = wanted.id limit 1) j
left join leasehold.workers w on w.id = j.worker_id
union all
select d.id, d.tenant_id, d.definition, d.version, d.status, true,
       d.priority, d.payload, d.attempt, d.max_attempts, d.forgiven, d.scheduled_for, d.queued_at, d.started_at,
       d.finished_at, d.deadline, d.worker_id, null, d.cancel_requested_at,
       d.result, d.last_error, d.last_error_code, d.dedupe_key, d.source, d.source_ref,
       d.correlation_id, d.created_by
from unnest(:jobs::uuid[]) as wanted (id)
cross join lateral (select * from leasehold.jobs_done where tenant_id = :tenant and id = wanted.id limit 1) d
