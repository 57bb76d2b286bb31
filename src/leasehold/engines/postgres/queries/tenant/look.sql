-- Looks at a tenant's newest jobs, behind a cursor, and tells how far it came and which of them match a filter.
select seen.*
from (select :tenant::text as tenant_id, :up_to::uuid as up_to, :share::bigint as share) as place
cross join lateral (include(look)) seen
