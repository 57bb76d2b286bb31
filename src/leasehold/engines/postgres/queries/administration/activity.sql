-- Counts jobs that are ready and that run now, by definition and tenant, and those that ended in the last moments: of at
-- most so many lanes, so many ready jobs of each, and the newest ends.
with recursive span as materialized (
    select now, now - :span::interval as begin from leasehold.clock() as now
),
ended as materialized (
    include(newest_ends)
),
tried as materialized (
    include(newest_tries)
),
-- Behind the oldest row of a full list there may be others: ends are counted from there on.
counted_from as materialized (
    select coalesce(max(cut.oldest), (select begin from span)) as moment
    from (
        select min(e.finished_at) as oldest from ended e group by e.kept_for having count(*) >= :limit
        union all
        select min(t.finished_at) from tried t having count(*) >= :limit
    ) cut
),
-- One tenant after the other by the index, as the recursion asks for them: it ends with the limit below.
lanes as (
    select f.key, (select j.tenant_id from leasehold.jobs j where j.ready and j.definition = f.key
                   order by j.tenant_id limit 1) as tenant
    from leasehold.definitions f
    union all
    select l.key, (select j.tenant_id from leasehold.jobs j
                   where j.ready and j.definition = l.key and j.tenant_id > l.tenant
                   order by j.tenant_id limit 1)
    from lanes l where l.tenant is not null
),
some_lanes as materialized (
    select l.key, l.tenant from lanes l where l.tenant is not null limit :lanes
),
counted as (
    select l.key as definition, l.tenant as tenant_id, 'ready' as figure,
           (select count(*) from (
               select from leasehold.jobs j where j.ready and j.definition = l.key and j.tenant_id = l.tenant
               order by j.priority, j.seq limit :ready) first) as n
    from some_lanes l
    union all
    -- All that run: these are as many as workers have slots.
    select r.definition, r.tenant_id, 'running', count(*)
    from leasehold.definitions f
    cross join lateral (
        select j.tenant_id, j.definition from leasehold.jobs j where j.status = 'running' and j.definition = f.key
        order by j.tenant_id, j.started_at
    ) r
    group by 1, 2
    union all
    select e.definition, e.tenant_id, e.status, count(*)
    from ended e cross join counted_from where e.finished_at > counted_from.moment group by 1, 2, 3
    union all
    select job.definition, t.tenant_id, 'failed_tries', count(*)
    from tried t cross join counted_from
    cross join lateral (
        select j.definition from leasehold.jobs j where j.tenant_id = t.tenant_id and j.id = t.job_id
        union all
        select d.definition from leasehold.jobs_done d where d.tenant_id = t.tenant_id and d.id = t.job_id
        limit 1
    ) job
    where t.finished_at > counted_from.moment and t.status in ('failed', 'timeout', 'crashed')
    group by 1, 2
)
select span.now, counted_from.moment as since, s.last_value as enqueued, c.definition, c.tenant_id, c.figure, c.n
from span cross join counted_from cross join leasehold.jobs_seq s left join counted c on true
