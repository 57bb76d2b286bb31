-- Lists the saved views of a tenant's lists: those of one person, and those that all share.
select v.tenant_id, v.owner, v.name, v.query, v.created_by, v.created_at
from leasehold.saved_views v
where v.tenant_id = :tenant and v.owner = any (array[:owner::text, ''])
order by v.name, v.owner limit :limit
