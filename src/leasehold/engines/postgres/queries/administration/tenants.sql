-- Lists the registered tenants, by name.
select id from leasehold.tenants order by id limit :limit
