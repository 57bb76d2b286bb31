-- Enqueues one job that nobody can hold back: no dedupe key, an id of ours. Wakes who can run it. No row: it is refused.
insert into leasehold.jobs (
    id, scheduled_for, queued_at, deadline, version, max_attempts, priority, ready, tenant_id, definition, status,
    payload, source, source_ref, correlation_id, created_by
)
select :id::uuid, due.at, moment.now, :deadline::timestamptz, v.version,
       coalesce(:max_attempts::integer, v.max_attempts), coalesce(:priority::smallint, v.priority),
       due.at <= moment.now, :tenant, d.key, 'queued', :payload::text::jsonb, :source::text, :source_ref::text,
       :correlation_id::text, :created_by::text
from (select leasehold.clock() as now from leasehold.durably()) moment
cross join lateral (select coalesce(:at::timestamptz, moment.now + :delay::interval) as at) due
join leasehold.definitions d on d.key = :definition::text and d.active
join leasehold.definition_versions v on v.key = d.key and v.version = coalesce(:version::integer, d.version)
returning leasehold.wake(array[definition], array[tenant_id], array[scheduled_for]) as woken
