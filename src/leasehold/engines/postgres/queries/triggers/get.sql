-- Reads a trigger of a tenant: one that is there, or one that is deleted.
select include(trigger_columns) from leasehold.triggers t
where t.tenant_id = :tenant::text and t.id = :trigger::uuid and (t.deleted_at is not null) = :deleted::boolean
