-- Deletes the limits and the pause of a tenant that is being deleted. Returns how many.
with gone as (
    delete from leasehold.limits where kind = 'tenant' and key = :tenant and :limit::bigint > 0 returning 1
)
select count(*) as count from gone
