-- Counts live workers, their slots and running jobs, and names the active definitions that no live worker serves.
--
-- `waiting` are those of them with a ready job. Without a worker nothing promotes a job that came due, so it counts as
-- ready. A worker counts for a definition even if it serves it for some tenants only: to tell would scan the backlog.
with moment as materialized (
    select leasehold.clock() as now
),
living as materialized (
    select w.slots, w.definitions from leasehold.workers w where w.lease_expires_at > (select now from moment)
),
running as (
    select from leasehold.definitions d
    cross join lateral (
        select from leasehold.jobs j where j.status = 'running' and j.definition = d.key
        order by j.tenant_id, j.started_at limit :most
    ) job
),
unserved as materialized (
    select d.key from leasehold.definitions d
    where d.active and not exists (select from living where d.key = any (living.definitions))
),
waiting as (
    select unserved.key from unserved
    cross join lateral (
        (select from leasehold.jobs j where j.ready and j.definition = unserved.key
         order by j.tenant_id, j.priority, j.seq limit 1)
        union all
        (select from leasehold.jobs j
         where j.status = 'queued' and not j.ready and j.definition = unserved.key
           and j.scheduled_for <= (select now from moment)
         order by j.scheduled_for limit 1)
        limit 1
    ) job
)
select (select count(*) from living) as workers,
       (select coalesce(sum(slots), 0) from living) as slots,
       (select count(*) from running) as running,
       array(select key from unserved order by key) as unserved,
       array(select key from waiting order by key) as waiting
