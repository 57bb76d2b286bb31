-- Deletes triggers of a tenant that is being deleted, once their decisions are gone. Returns how many.
with own as materialized (
    (select id from leasehold.triggers where tenant_id = :tenant and deleted_at is null order by id limit :limit)
    union all
    (select id from leasehold.triggers where tenant_id = :tenant and deleted_at is not null order by id limit :limit)
),
gone as (
    delete from leasehold.triggers t using own where t.id = any (array[own.id]) returning 1
)
select count(*) as count from gone
