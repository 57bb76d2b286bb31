-- Saves a view, in the place of one with the same name. Returns nothing if its owner has :most others.
insert into leasehold.saved_views (tenant_id, owner, name, query, created_by, created_at)
select :tenant::text, :owner::text, :name::text, :query::text, :created_by::text, leasehold.clock()
where (
    select count(*) from (
        select from leasehold.saved_views v
        where v.tenant_id = :tenant and v.owner = :owner and v.name <> :name limit :most
    ) other
) < :most::bigint
on conflict (tenant_id, owner, name) do update
set query = excluded.query, created_by = excluded.created_by, created_at = excluded.created_at
returning name
