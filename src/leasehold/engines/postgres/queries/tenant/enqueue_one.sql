-- Enqueues one job that has only defaults, and maybe a trace, and wakes a worker. No row: the definition or the tenant
-- takes no jobs.
insert into leasehold.jobs (
    id, scheduled_for, queued_at, version, max_attempts, priority, ready, tenant_id, definition, status, payload, source,
    trace_context
)
select :id::uuid, moment.now, moment.now, v.version, v.max_attempts, v.priority, true, :tenant, d.key, 'queued',
       :payload::text::jsonb, :source::text, :trace_context::text
from (select leasehold.clock() as now, leasehold.force_sync_commit()) moment
join leasehold.definitions d on d.key = :definition::text and d.active
join leasehold.definition_versions v on v.key = d.key and v.version = coalesce(:version::integer, d.version)
join leasehold.tenants t on t.id = :tenant and t.deleted_by is null
returning case when leasehold.nobody_sleeps(definition) then 0
          else leasehold.wake_for_one(definition, tenant_id, scheduled_for) end as woken
