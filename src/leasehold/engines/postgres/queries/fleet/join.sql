-- Registers a worker under an id that was never used before, and keeps its name for readers of its attempts.
with moment as materialized (
    select leasehold.clock() as now
),
named as (
    insert into leasehold.worker_names (id, host, pid, started_at)
    select :worker::uuid, :host::text, :pid::integer, now from moment
)
insert into leasehold.workers (
    id, host, pid, version, slots, definitions, tenants, metadata, started_at, last_seen_at, lease_expires_at
)
select :worker, :host, :pid, :version, :slots, :definitions::text[], :tenants::text[], :metadata::jsonb,
       now, now, now + :lease::interval
from moment
