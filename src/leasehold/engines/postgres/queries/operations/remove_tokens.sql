-- Deletes API tokens of a tenant that is being deleted. Returns how many.
with gone as (
    delete from leasehold.api_tokens
    where id = any (array(
        select id from leasehold.api_tokens where tenant_id = :tenant order by tenant_id, id limit :limit
    ))
    returning 1
)
select count(*) as count from gone
