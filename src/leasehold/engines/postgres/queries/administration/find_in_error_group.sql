-- Jobs of an error group of all tenants by filter, newest first and then by tenant, behind a cursor.
select job.*
from (
    select tenant.id as tenant_id, found.id
    from (
        select t.id, case when t.id > :last_tenant then :up_to_later::uuid else :up_to::uuid end as up_to
        from leasehold.tenants t
    ) tenant
    cross join lateral (
        select j.id
        from leasehold.jobs_done j
        where j.tenant_id = tenant.id and j.status in ('failed', 'dead_letter')
          and include(error_group) = :error_group::bytea and j.id <= tenant.up_to
          and j.status = any (:unusual::text[]) and :due::boolean is not false and include(operation_filter)
        order by include(error_group) desc, j.id desc limit :limit
    ) found
    order by found.id desc, tenant.id limit :limit
) page
cross join lateral (
    select * from leasehold.job_records where tenant_id = page.tenant_id and id = page.id limit 1
) job
order by job.id desc, job.tenant_id
