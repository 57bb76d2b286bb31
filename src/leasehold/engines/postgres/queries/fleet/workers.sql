-- The living, oldest first.
select id, host, pid, version, slots, definitions, tenants, running_count, metadata, started_at, last_seen_at,
       lease_expires_at
from leasehold.workers
order by started_at, id
