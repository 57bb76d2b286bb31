-- Tells what a tenant has beside its jobs by status. No row: it is not registered.
select t.created_at, t.deleted_by, l.max_running,
       case when coalesce(l.paused_until > now, true) then l.pause_reason end as pause_reason,
       case when l.paused_until > now then leasehold.shown(l.paused_until) end as paused_until,
       -- By id: the first one was enqueued first, unless its caller brought the id.
       (select leasehold.shown(j.queued_at) from leasehold.jobs j
        where j.tenant_id = t.id and position('queued' in j.status) > 0 order by j.id limit 1) as oldest_queued,
       (select count(*) from (
           select from leasehold.triggers r
           where r.tenant_id = t.id and r.deleted_at is null order by r.id limit :cap) counted) as triggers
from leasehold.tenants t
cross join leasehold.clock() as now
left join leasehold.limits l on l.kind = 'tenant' and l.key = t.id
where t.id = :tenant
