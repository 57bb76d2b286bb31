-- Deletes figures of minutes of a tenant that is being deleted. Returns how many rows.
with gone as (
    delete from leasehold.series_minutes
    where ctid = any (array(
        select ctid from leasehold.series_minutes
        where tenant_id = :tenant
        order by tenant_id, definition, at limit :limit
        for update skip locked
    ))
    returning 1
)
select count(*) as count from gone
