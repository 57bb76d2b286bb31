-- Turns off triggers of a tenant that is being deleted. Returns how many.
with stopped as (
    update leasehold.triggers t
    set enabled = false, next_fire_at = null, fan_out_at = null, fan_out_after = null, version = t.version + 1,
        updated_at = leasehold.clock()
    where t.id in (
        select id from leasehold.triggers
        where tenant_id = :tenant and deleted_at is null and enabled
        order by id limit :limit
        for update skip locked
    )
    returning t.*
)
select count(*) as count, count(include(announce_change)) from stopped t
