-- Takes the locks of capped scopes, before the claim: one taken inside the claim is younger than its snapshot
-- (cap 3, 12 claimers: 36 running without a lock, 6 with the lock inside, 3 with the lock before).
select l.kind, l.key, pg_try_advisory_xact_lock(leasehold.limit_key(l.kind, l.key)) as locked
from leasehold.limits l
where l.max_running is not null
  and ((l.kind = 'tenant' and l.key = any (:tenants::text[]))
       or (l.kind = 'definition' and l.key = any (:definitions::text[])))
