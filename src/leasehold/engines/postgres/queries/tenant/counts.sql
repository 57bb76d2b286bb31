-- A tenant's jobs by status, each counted up to a cap and no further.
select wanted.status, (
    select count(*) from (
        select from leasehold.jobs j where j.tenant_id = :tenant and j.status = wanted.status limit :cap) counted
) as count
from unnest(array['blocked', 'queued', 'running']) as wanted (status)
union all
select 'succeeded', (
    select count(*) from (
        select from leasehold.jobs_done d where d.tenant_id = :tenant and d.status = 'succeeded' limit :cap) counted
)
union all
select wanted.status, (
    select count(*) from (
        select from leasehold.jobs_done d
        where d.tenant_id = :tenant and d.status = wanted.status and d.status <> 'succeeded' limit :cap) counted
)
from unnest(array['failed', 'canceled', 'dead_letter']) as wanted (status)
