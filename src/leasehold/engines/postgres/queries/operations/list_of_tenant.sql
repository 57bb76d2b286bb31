-- Lists the operations of a tenant behind a cursor, the newest first.
select include(operation_columns) from leasehold.operations o
where o.tenant_id = :tenant and o.id < :before::uuid
order by o.tenant_id desc, o.id desc limit :limit
