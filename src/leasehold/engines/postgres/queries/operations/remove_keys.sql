-- Deletes dedupe keys of a tenant that is being deleted. Returns how many.
with gone as (
    delete from leasehold.dedupe_holds
    where ctid = any (array(
        select ctid from leasehold.dedupe_holds
        where tenant_id = :tenant
        order by tenant_id, dedupe_hash limit :limit
        for update skip locked
    ))
    returning 1
)
select count(*) as count from gone
