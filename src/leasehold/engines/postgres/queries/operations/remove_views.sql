-- Deletes the saved views of a tenant that is being deleted. Returns how many.
with gone as (
    delete from leasehold.saved_views where tenant_id = :tenant and :limit::bigint > 0 returning 1
)
select count(*) as count from gone
