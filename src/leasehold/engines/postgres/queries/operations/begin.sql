-- Writes an operation, due now.
insert into leasehold.operations as o (
    id, kind, tenant_id, state, job_filter, pace, canary, total, total_is_cap, created_by, reason, created_at,
    due_at
)
select :id::uuid, :kind, :tenant, 'planned', :job_filter::jsonb, :pace::float8, :canary, :total::bigint, :total_is_cap,
       :created_by::text, :reason::text, now, now
from leasehold.clock() as now
returning include(operation_columns), pg_notify(leasehold.channel_for_all(), 'operation')
