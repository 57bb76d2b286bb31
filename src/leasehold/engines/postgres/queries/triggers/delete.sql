-- Marks a trigger as deleted, and tells schedulers: it fires no more, and its decisions can still be explained.
with t as (
    update leasehold.triggers t
    set deleted_at = leasehold.clock(), updated_at = leasehold.clock(), version = t.version + 1, next_fire_at = null,
        fan_out_at = null, fan_out_after = null
    where t.tenant_id = :tenant::text and t.id = :trigger::uuid and t.deleted_at is null
    returning t.*
)
select t.id, include(announce_change) as announced from t
