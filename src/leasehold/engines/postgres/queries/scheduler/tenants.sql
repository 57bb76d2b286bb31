-- Names tenants after a tenant, in their order: those that get their jobs of a fire next.
select id from leasehold.tenants where id > :after::text order by id limit :limit
