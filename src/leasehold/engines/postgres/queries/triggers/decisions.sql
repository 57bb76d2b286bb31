-- Lists the latest decisions of a trigger of a tenant, the newest first; of one for all tenants, those of every tenant.
select d.trigger_id as trigger, d.tenant_id as tenant, d.kind, d.event_id as event, d.fire_at, d.job_id as job,
       d.reason, coalesce(d.why, '') as why, d.fires as count, d.decided_at as at
from leasehold.trigger_decisions d
where d.trigger_id = :trigger::uuid
  and (d.tenant_id = :tenant::text or :tenant::text = '')
order by d.id desc limit :limit
