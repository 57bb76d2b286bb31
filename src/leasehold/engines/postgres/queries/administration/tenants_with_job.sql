-- Finds the tenants that own a job with this id. The limit keeps the planner to one probe of each table for each
-- tenant.
select t.id
from leasehold.tenants t
cross join lateral (
    select from leasehold.job_records where tenant_id = t.id and id = :job limit 1
) job
order by t.id
