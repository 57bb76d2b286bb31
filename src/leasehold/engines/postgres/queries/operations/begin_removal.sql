-- Writes the removal of a tenant and closes the tenant for new work. No row: the tenant is unknown, or being deleted.
with closed as (
    update leasehold.tenants t set deleted_by = :id::uuid where t.id = :tenant and t.deleted_by is null
    returning t.id
)
insert into leasehold.operations as o (id, kind, tenant_id, state, pace, created_by, created_at, due_at)
select :id::uuid, 'delete_tenant', closed.id, 'planned', :pace::float8, :created_by::text, now, now
from closed cross join leasehold.clock() as now
returning include(operation_columns), pg_notify(leasehold.channel_for_all(), 'operation')
