-- Deletes log lines of a tenant that is being deleted. Returns how many.
with gone as (
    delete from leasehold.job_lines
    where ctid = any (array(
        select ctid from leasehold.job_lines
        where tenant_id = :tenant
        order by tenant_id, job_id, attempt, number limit :limit
    ))
    returning 1
)
select count(*) as count from gone
