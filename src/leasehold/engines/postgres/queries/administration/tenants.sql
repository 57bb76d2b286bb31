-- Lists the registered tenants after one of them, by name.
select id from leasehold.tenants where id > :after::text order by id limit :limit
