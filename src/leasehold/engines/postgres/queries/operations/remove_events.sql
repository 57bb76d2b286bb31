-- Deletes events of a tenant that is being deleted. Returns how many.
with gone as (
    delete from leasehold.events
    where ctid = any (array(
        select ctid from leasehold.events
        where tenant_id = :tenant
        order by tenant_id, id limit :limit
        for update skip locked
    ))
    returning 1
)
select count(*) as count from gone
