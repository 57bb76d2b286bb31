-- A tenant's row appears at its first use. Not waited for long: who holds it uncommitted may be our own caller.
with patience as (
    select set_config('lock_timeout', '1s', true)
)
insert into leasehold.tenants (id, created_at) select :tenant, leasehold.clock() from patience
where not exists (select from leasehold.tenants where id = :tenant)
on conflict do nothing
