-- Finds the decisions of these triggers about these events of a tenant.
select d.trigger_id as trigger, d.tenant_id as tenant, d.kind, d.event_id as event, d.fire_at, d.job_id as job,
       d.reason, coalesce(d.why, '') as why, d.fires as count, d.decided_at as at
from unnest(:events::uuid[]) with ordinality e (id, number)
cross join unnest(:triggers::uuid[]) t (id)
cross join lateral (
    select * from leasehold.trigger_decisions d
    where d.trigger_id = t.id and d.event_id = e.id and d.tenant_id = :tenant::text
    limit 1
) d
order by e.number, d.id
