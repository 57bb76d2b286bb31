-- Names tenants after a tenant, in their order: those that get their jobs of a fire next.
select id from leasehold.tenants where id > :after::text and deleted_by is null order by id limit :limit
