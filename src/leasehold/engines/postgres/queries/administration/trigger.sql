-- Reads a trigger of any tenant.
select include(trigger_columns) from leasehold.triggers t where t.id = :trigger::uuid and t.deleted_at is null
