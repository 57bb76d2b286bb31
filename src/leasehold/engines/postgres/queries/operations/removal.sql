-- Returns the operation that deletes a tenant; no row: the tenant is unknown, or open.
select include(operation_columns) from leasehold.operations o
where o.id = (select t.deleted_by from leasehold.tenants t where t.id = :tenant)
