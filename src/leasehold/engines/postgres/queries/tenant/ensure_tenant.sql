-- Adds a tenant's row at its first use. Fails at once, by lock_timeout, if another open transaction has just added it.
with patience as (
    select set_config('lock_timeout', '1ms', true)
)
insert into leasehold.tenants (id, created_at) select :tenant, leasehold.clock() from patience
where not exists (select from leasehold.tenants where id = :tenant)
on conflict do nothing
