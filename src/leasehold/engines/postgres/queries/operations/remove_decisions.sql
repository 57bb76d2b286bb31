-- Deletes decisions about the triggers of a tenant that is being deleted. Returns how many.
with own as materialized (
    (select id from leasehold.triggers where tenant_id = :tenant and deleted_at is null order by id limit :limit)
    union all
    (select id from leasehold.triggers where tenant_id = :tenant and deleted_at is not null order by id limit :limit)
),
gone as (
    delete from leasehold.trigger_decisions
    where ctid = any (array(
        select d.ctid from own
        cross join lateral (
            select ctid from leasehold.trigger_decisions d
            where d.trigger_id = own.id order by d.id limit :limit
        ) d
        limit :limit
    ))
    returning 1
)
select count(*) as count from gone
