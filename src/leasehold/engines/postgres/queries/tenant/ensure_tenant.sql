-- A tenant's row appears at its first use.
insert into leasehold.tenants (id, created_at) select :tenant, leasehold.clock()
where not exists (select from leasehold.tenants where id = :tenant)
on conflict do nothing
