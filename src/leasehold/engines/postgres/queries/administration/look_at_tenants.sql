-- Looks at the newest jobs of tenants, each from a place on, and tells how far it came and which of them match a filter.
--
-- The shares of the places bound what the statement reads, however few of the jobs match.
select place.tenant_id as tenant, seen.*
from unnest(:tenants::text[], :up_to::uuid[], :shares::bigint[]) as place (tenant_id, up_to, share)
cross join lateral (include(look)) seen
where seen.looked > 0
