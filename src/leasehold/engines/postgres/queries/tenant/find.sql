-- Lists a tenant's jobs by filter, newest first, behind a cursor.
select job.*
from leasehold.find_job_ids(
    :tenant, :up_to, :active, :running, :succeeded, :unusual, :definitions, :source, :correlation_id, :due, :tried,
    :created_after, :created_before, :limit
) as page (id)
cross join lateral (select * from leasehold.job_records where tenant_id = :tenant and id = page.id limit 1) job
order by job.id desc
