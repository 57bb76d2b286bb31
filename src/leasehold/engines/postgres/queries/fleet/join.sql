-- Registers a worker under an id that was never used before.
insert into leasehold.workers (
    id, host, pid, version, slots, definitions, tenants, metadata, started_at, last_seen_at, lease_expires_at
)
select :worker, :host, :pid, :version, :slots, :definitions::text[], :tenants::text[], :metadata::jsonb,
       now, now, now + :lease::interval
from leasehold.clock() as now
