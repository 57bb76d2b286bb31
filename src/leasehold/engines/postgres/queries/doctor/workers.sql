-- Counts live workers, their slots and running jobs, and names the active definitions that no live worker serves.
--
-- `waiting` are those of them with a ready job. Without a worker nothing promotes a job that came due, so it counts as
-- ready. `partly` are definitions that live workers serve for some tenants only, with the first other tenant that has a
-- ready job: the index of ready jobs is walked by tenant, past those that are served, and no further.
with recursive moment as materialized (
    select leasehold.clock() as now
),
living as materialized (
    select w.slots, w.definitions, w.tenants from leasehold.workers w where w.lease_expires_at > (select now from moment)
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
),
partly as materialized (
    select d.key, array(
               select unnest(living.tenants) from living where d.key = any (living.definitions)
           ) as tenants
    from leasehold.definitions d
    where d.active and (
        select bool_and(living.tenants is not null) from living where d.key = any (living.definitions)
    )
),
walk as (
    select partly.key, partly.tenants, first.tenant_id
    from partly
    cross join lateral (
        select j.tenant_id from leasehold.jobs j where j.ready and j.definition = partly.key
        order by j.tenant_id, j.priority, j.seq limit 1
    ) first
    union all
    select walk.key, walk.tenants, next.tenant_id
    from walk
    cross join lateral (
        select j.tenant_id from leasehold.jobs j
        where j.ready and j.definition = walk.key and j.tenant_id > walk.tenant_id
        order by j.tenant_id, j.priority, j.seq limit 1
    ) next
    where walk.tenant_id = any (walk.tenants)
),
left_out as materialized (
    select walk.key, walk.tenant_id from walk where walk.tenant_id <> all (walk.tenants)
)
select (select count(*) from living) as workers,
       (select coalesce(sum(slots), 0) from living) as slots,
       (select count(*) from running) as running,
       array(select key from unserved order by key) as unserved,
       array(select key from waiting order by key) as waiting,
       array(select key from left_out order by key) as left_out,
       array(select tenant_id from left_out order by key) as left_out_tenants
