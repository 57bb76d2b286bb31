-- Jobs of all tenants by filter, newest first and then by tenant, behind a cursor.
--
-- No index lists them so. But a page of 50 is to be found with the 50 tenants whose newest job is the newest: that
-- takes a few probes for each tenant, then a page of each of those.
with tenant as (
    -- A name that compares by bytes would make all texts in find_job_ids() do so; but their indexes do not.
    select t.id, t.id collate "default" as name,
           case when t.id > :last_tenant then :up_to_later::uuid else :up_to::uuid end as up_to
    from (
        select id from leasehold.tenants where not :only_running::boolean
        union all
        -- If only running jobs are wanted, tenants without any are left out.
        select distinct tenant_id from leasehold.jobs where status = 'running' and :only_running
    ) t
),
newest as materialized (
    select tenant.id, tenant.name, tenant.up_to
    from tenant
    cross join lateral leasehold.find_job_ids(
        tenant.name, tenant.up_to, :active, :running, :succeeded, :unusual, :definitions, :source, :correlation_id,
        :due, :tried, :created_after, :created_before, 1
    ) as first (id)
    order by first.id desc, tenant.id limit :limit
),
page as materialized (
    select newest.id as tenant_id, job.id
    from newest
    cross join lateral leasehold.find_job_ids(
        newest.name, newest.up_to, :active, :running, :succeeded, :unusual, :definitions, :source, :correlation_id,
        :due, :tried, :created_after, :created_before, :limit
    ) as job (id)
    order by job.id desc, newest.id limit :limit
)
select job.*
from page
cross join lateral (
    select * from leasehold.job_records where tenant_id = page.tenant_id and id = page.id limit 1
) job
order by job.id desc, job.tenant_id
