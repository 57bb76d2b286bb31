-- Reads a trigger of a tenant.
select include(trigger_columns) from leasehold.triggers t
where t.tenant_id = :tenant::text and t.id = :trigger::uuid and t.deleted_at is null
