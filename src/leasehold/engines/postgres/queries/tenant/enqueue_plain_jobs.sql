-- Enqueues jobs that differ in their payloads only and can conflict with no other job. No row: they are refused.
with moment as materialized (
    select leasehold.clock() as now, leasehold.force_sync_commit()
),
known as materialized (
    select d.key, v.version, moment.now, coalesce(:priority::smallint, v.priority) as priority,
           coalesce(:max_attempts::integer, v.max_attempts) as max_attempts,
           -- In seconds: on the day that clocks change, a day of Postgres has 23 hours or 25, by its session's zone.
           coalesce(:at::timestamptz, moment.now + extract(epoch from :delay::interval) * interval '1 second') as due
    from moment
    join leasehold.definitions d on d.key = :definition::text and d.active
    join leasehold.definition_versions v on v.key = d.key and v.version = coalesce(:version::integer, d.version)
    join leasehold.tenants t on t.id = :tenant and t.deleted_by is null
),
-- No conflict is looked for: that alone took 11 of the 20 ms which a thousand jobs cost.
created as (
    insert into leasehold.jobs (
        id, scheduled_for, queued_at, deadline, version, max_attempts, priority, ready, tenant_id, definition, status,
        payload, source, source_ref, correlation_id, created_by, trace_context
    )
    select n.id, k.due, k.now, :deadline::timestamptz, k.version, k.max_attempts, k.priority, k.due <= k.now, :tenant,
           k.key, 'queued', n.payload::jsonb, :source::text, :source_ref::text, :correlation_id::text,
           :created_by::text, :trace_context::text
    from known k
    cross join unnest(string_to_array(:ids, ',')::uuid[], string_to_array(:payloads, chr(10)))
        with ordinality as n (id, payload, number)
    order by n.number
)
-- A chunk of a bulk transaction wakes no worker: the end of the transaction does, for all chunks.
select k.due, case when :wakes::boolean then leasehold.wake_for_one(k.key, :tenant, k.due) end as woken
from known k
