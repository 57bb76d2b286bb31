-- Returns an operation, of one tenant or of any.
select include(operation_columns) from leasehold.operations o
where o.id = :operation::uuid and (:tenant::text is null or o.tenant_id = :tenant)
