-- Counts a tenant's jobs by status, each up to a cap and no further.
select 'blocked' as status, (
    select count(*) from (
        select from leasehold.jobs j where j.tenant_id = :tenant and j.status = 'blocked' limit :cap) counted
) as count
union all
-- In the order of ids: passes over the few of the tenant's that run.
select 'queued', (
    select count(*) from (
        select from leasehold.jobs j where j.tenant_id = :tenant and j.status = 'queued'
        order by j.id limit :cap) counted
)
union all
select 'running', (
    select count(*) from (
        select from leasehold.definitions f
        cross join lateral (
            select from leasehold.jobs j
            where j.status = 'running' and j.definition = f.key and j.tenant_id = :tenant
            order by j.started_at limit :cap) one
        limit :cap) counted
)
union all
select 'succeeded', (
    select count(*) from (
        select from leasehold.jobs_done d where d.tenant_id = :tenant and d.status = 'succeeded'
        order by d.id limit :cap) counted
)
union all
select wanted.status, (
    select count(*) from (
        select from leasehold.jobs_done d
        where d.tenant_id = :tenant and d.status = wanted.status and d.status <> 'succeeded' limit :cap) counted
)
from unnest(array['failed', 'canceled', 'dead_letter']) as wanted (status)
