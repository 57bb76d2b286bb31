-- Adds a tenant's row at its first use, unless strict tenants are on. Returns whether jobs of the tenant are accepted.
-- Fails at once, by lock_timeout, if another open transaction has just added the row.
with patience as materialized (
    select set_config('lock_timeout', '1ms', true)
),
known as materialized (
    select exists (select from leasehold.tenants where id = :tenant) as has_row,
           coalesce((select strict_tenants from leasehold.settings), false) as strict
    from patience
),
added as (
    insert into leasehold.tenants (id, created_at) select :tenant, leasehold.clock() from known
    where not has_row and not strict
    on conflict do nothing
)
select has_row or not strict as accepted from known
