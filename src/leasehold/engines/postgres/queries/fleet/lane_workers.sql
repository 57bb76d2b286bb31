-- Lists workers as they concern one lane, those that serve it first; their running jobs are counted up to :most of each
-- definition.
with moment as materialized (
    select leasehold.clock() as now
),
held as materialized (
    select running.worker_id, count(*) as jobs
    from leasehold.definitions d
    cross join lateral (
        select j.worker_id from leasehold.jobs j where j.status = 'running' and j.definition = d.key
        order by j.tenant_id, j.started_at limit :most
    ) running
    group by running.worker_id
),
listener as materialized (
    select l.classid::bigint << 32 | l.objid::bigint as key from pg_locks l
    where l.locktype = 'advisory' and l.granted and l.objsubid = 1
      and l.database = (select oid from pg_database where datname = current_database())
)
select w.id, w.host, w.pid, w.version, w.slots, w.definitions,
       serves.definition as serves_definition, serves.tenant as serves_tenant, serves.alive,
       leasehold.shown(w.last_seen_at) as last_seen_at, leasehold.shown(w.lease_expires_at) as lease_expires_at,
       coalesce((select held.jobs from held where held.worker_id = w.id), 0) as running,
       exists (select from listener where listener.key = leasehold.listener_key(w.id)) as listens
from leasehold.workers w
cross join lateral (
    select :definition::text = any (w.definitions) as definition,
           w.tenants is null or :tenant::text = any (w.tenants) as tenant,
           w.lease_expires_at > (select now from moment) and w.drains_since is null as alive
) serves
order by serves.alive and serves.definition and serves.tenant desc, serves.definition desc, serves.alive desc,
         w.last_seen_at desc, w.id
limit :limit
