-- Looks at the newest jobs of tenants, each from a place on, and tells how far it came and which of them match a filter.
--
-- A place is a tenant, the greatest id to look at, and how many jobs: the shares bound what the statement reads, however
-- few of the jobs match. Only a condition that an index serves says which jobs are looked at.
select place.tenant, seen.*
from unnest(:tenants::text[], :up_to::uuid[], :shares::bigint[]) as place (tenant, up_to, share)
cross join lateral (
    select count(*) as looked, (array_agg(job.id))[1] as newest, (array_agg(job.id))[count(*)] as oldest,
           coalesce(array_agg(job.id) filter (where job.matches), '{}') as matching
    from (
        select each.id, each.matches
        from (
            (select job.id,
                    job.status = any (:active::text[])
                    and (:due::boolean is null
                         or :due = (job.status <> 'queued' or job.scheduled_for <= (select leasehold.clock())))
                    and include(look_filter) as matches
             from leasehold.jobs job
             where job.tenant_id = place.tenant and job.id <= place.up_to and cardinality(:active) > 0
             order by job.id desc limit place.share)
            union all
            (select job.id,
                    (job.status = 'succeeded' or job.status = any (:unusual::text[])) and include(look_filter) as matches
             from leasehold.jobs_done job
             where job.tenant_id = place.tenant and job.id <= place.up_to and :succeeded::boolean
               and :due is not false
             order by job.id desc limit place.share)
            union all
            -- Without those that succeeded, the few others are found by their own index.
            (select ended.id, ended.matches
             from unnest(:unusual) as wanted (status)
             cross join lateral (
                 select job.id, include(look_filter) as matches
                 from leasehold.jobs_done job
                 where job.tenant_id = place.tenant and job.id <= place.up_to and job.status = wanted.status
                   and job.status <> 'succeeded' and not :succeeded and :due is not false
                 order by job.id desc limit place.share
             ) ended)
        ) each
        order by each.id desc limit place.share
    ) job
) seen
where seen.looked > 0
