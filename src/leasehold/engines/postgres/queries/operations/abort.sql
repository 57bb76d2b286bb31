-- Ends an open operation, of one tenant or of any. Waits for a batch that is under way: it holds the row's lock.
with o as (
    update leasehold.operations o set state = 'aborted', ended_at = leasehold.clock(), due_at = null
    where o.id = :operation::uuid and (:tenant::text is null or o.tenant_id = :tenant) and o.due_at is not null
    returning o.*
),
opened as (
    update leasehold.tenants t set deleted_by = null from o
    where o.kind = 'delete_tenant' and t.id = any (array[o.tenant_id]) and t.deleted_by = o.id
)
select include(operation_columns) from o
