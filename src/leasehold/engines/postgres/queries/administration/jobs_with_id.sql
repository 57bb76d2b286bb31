-- The jobs of all tenants with this id. The limit keeps the planner to one probe of each table for each tenant.
select job.*
from leasehold.tenants t
cross join lateral (
    select * from leasehold.job_records where tenant_id = t.id and id = :job limit 1
) job
order by t.id
