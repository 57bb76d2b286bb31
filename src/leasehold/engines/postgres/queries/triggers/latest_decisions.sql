-- Finds the latest decision of each of these triggers of a tenant; of those for all tenants, the latest of any tenant.
select d.trigger_id as trigger, d.tenant_id as tenant, d.kind, d.event_id as event, d.fire_at, d.job_id as job,
       d.reason, coalesce(d.why, '') as why, d.fires as count, d.decided_at as at
from unnest(:triggers::uuid[]) t (id)
cross join lateral (
    select * from leasehold.trigger_decisions d
    where d.trigger_id = t.id and (d.tenant_id = :tenant::text or :tenant::text = '')
    order by d.id desc limit 1
) d
