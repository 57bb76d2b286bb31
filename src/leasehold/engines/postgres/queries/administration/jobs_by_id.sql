-- Jobs by tenant and id, newest first and then by tenant.
select job.*
from unnest(:tenants::text[], :jobs::uuid[]) as wanted (tenant, id)
cross join lateral (
    select * from leasehold.job_records where tenant_id = wanted.tenant and id = wanted.id limit 1
) job
order by job.id desc, job.tenant_id
