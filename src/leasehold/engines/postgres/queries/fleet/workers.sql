-- Lists live workers, oldest first, with the number of jobs that each holds.
select w.id, w.host, w.pid, w.version, w.slots, w.definitions, w.tenants, w.metadata,
       leasehold.shown(w.started_at) as started_at, leasehold.shown(w.last_seen_at) as last_seen_at,
       leasehold.shown(w.lease_expires_at) as lease_expires_at, coalesce(held.running, 0) as running
from leasehold.workers w
left join (
    select worker_id, count(*) as running from leasehold.jobs where status = 'running' group by worker_id
) held on held.worker_id = w.id
order by w.started_at, w.id
