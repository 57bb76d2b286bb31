-- Lists live workers, oldest first: how many jobs each holds, since when, and whether its listener is there.
with listener as materialized (
    select l.classid::bigint << 32 | l.objid::bigint as key from pg_locks l
    where l.locktype = 'advisory' and l.granted and l.objsubid = 1
      and l.database = (select oid from pg_database where datname = current_database())
)
select w.id, w.host, w.pid, w.version, w.slots, w.definitions, w.tenants, w.metadata,
       leasehold.shown(w.started_at) as started_at, leasehold.shown(w.last_seen_at) as last_seen_at,
       leasehold.shown(w.lease_expires_at) as lease_expires_at, coalesce(held.running, 0) as running,
       leasehold.shown(held.oldest_started_at) as oldest_started_at, leasehold.shown(w.drains_since) as drains_since,
       exists (select from listener where listener.key = leasehold.listener_key(w.id)) as listens
from leasehold.workers w
left join (
    select worker_id, count(*) as running, min(started_at) as oldest_started_at
    from leasehold.jobs where status = 'running' group by worker_id
) held on held.worker_id = w.id
order by w.started_at, w.id
