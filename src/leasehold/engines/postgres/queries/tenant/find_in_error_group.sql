-- Lists a tenant's jobs of an error group by filter, newest first, behind a cursor.
select job.*
from (
    select j.id
    from leasehold.jobs_done j
    where j.tenant_id = :tenant and j.status in ('failed', 'dead_letter') and include(error_group) = :error_group::bytea
      and j.id <= :up_to::uuid and j.status = any (:unusual::text[]) and :due::boolean is not false
      and include(operation_filter)
    order by include(error_group) desc, j.id desc limit :limit
) page
cross join lateral (select * from leasehold.job_records where tenant_id = :tenant and id = page.id limit 1) job
order by job.id desc
