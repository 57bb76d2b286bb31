-- Registers a tenant before its first job. Returns a row if the tenant is new.
insert into leasehold.tenants (id, created_at) values (:tenant, leasehold.clock()) on conflict do nothing
returning id
