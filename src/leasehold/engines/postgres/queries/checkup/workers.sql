-- How many workers live, with how many slots, and how much runs; and what is ready though none of them serves it.
--
-- For what nobody serves nobody promotes what came due either: that counts as ready. A worker counts for a definition
-- even if it serves it for some tenants only; to tell would take a walk over the backlog.
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
        order by j.tenant_id, j.worker_id limit :most
    ) job
),
unserved as (
    select d.key from leasehold.definitions d
    cross join lateral (
        (select from leasehold.jobs j where j.ready and j.definition = d.key
         order by j.tenant_id, j.priority, j.seq limit 1)
        union all
        (select from leasehold.jobs j
         where j.status = 'queued' and not j.ready and j.definition = d.key
           and j.scheduled_for <= (select now from moment)
         order by j.scheduled_for limit 1)
        limit 1
    ) waiting
    where d.active and not exists (select from living where d.key = any (living.definitions))
)
select (select count(*) from living) as workers,
       (select coalesce(sum(slots), 0) from living) as slots,
       (select count(*) from running) as running,
       array(select key from unserved order by key) as unserved
