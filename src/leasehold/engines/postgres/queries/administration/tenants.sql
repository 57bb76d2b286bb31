-- Those who ever enqueued something, by name.
select id from leasehold.tenants order by id limit :limit
