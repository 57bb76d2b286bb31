-- Deletes ended jobs of a tenant that is being deleted. Returns how many.
with gone as (
    delete from leasehold.jobs_done
    where ctid = any (array(
        select ctid from leasehold.jobs_done
        where tenant_id = :tenant
        order by tenant_id, id limit :limit
        for update skip locked
    ))
    returning 1
)
select count(*) as count from gone
