-- Deletes the usage of a tenant that is being deleted. Returns how many rows.
with gone as (
    delete from leasehold.usage_hours
    where ctid = any (array(
        select ctid from leasehold.usage_hours
        where tenant_id = :tenant
        order by tenant_id, at, definition limit :limit
        for update skip locked
    ))
    returning 1
)
select count(*) as count from gone
