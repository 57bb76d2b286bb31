-- Takes the locks of capped scopes, before the claim: one taken inside the claim is younger than its snapshot
-- (cap 3, 12 claimers: 36 running without a lock, 6 with the lock inside, 3 with the lock before).
select l.kind, l.key, pg_try_advisory_xact_lock(leasehold.limit_key(l.kind, l.key)) as locked
from (
    select 'tenant' as kind, unnest(:tenants::text[]) as key union select 'definition', unnest(:definitions::text[])
) as scope
-- The limit keeps the planner from reading all limits of a kind (20,000 capped tenants: 347 buffers for one scope).
cross join lateral (
    select * from leasehold.limits where kind = scope.kind and key = scope.key and max_running is not null limit 1
) l
