-- Looks at the newest jobs of the row `place`: its tenant, the greatest id to look at, and how many (its share).
--
-- Only a condition that an index serves says which jobs are looked at; the others tell which of them match.
select include(seen_jobs)
from (
    select each.id, each.matches
    from (
        (select job.id,
                job.status = any (:active::text[])
                and (:due::boolean is null
                     or :due = (job.status <> 'queued' or job.scheduled_for <= (select leasehold.clock())))
                and include(look_filter) and include(active_duration) as matches
         from leasehold.jobs job
         where job.tenant_id = place.tenant_id and job.id <= place.up_to and cardinality(:active) > 0
         order by job.id desc limit place.share)
        union all
        -- Without the waiting jobs, the few that run are found by their own index.
        (select running.id, running.matches
         from leasehold.definitions f
         cross join lateral (
             select job.id, include(look_filter) and include(active_duration) as matches
             from leasehold.jobs job
             where job.status = 'running' and job.definition = f.key and job.tenant_id = place.tenant_id
               and job.id <= place.up_to and :due is not false
             order by job.started_at
         ) running
         where :running::boolean
         order by running.id desc limit place.share)
        union all
        (select job.id,
                (job.status = 'succeeded' or job.status = any (:unusual::text[]))
                and include(look_filter) and include(ended_duration) as matches
         from leasehold.jobs_done job
         where job.tenant_id = place.tenant_id and job.id <= place.up_to and :succeeded::boolean
           and :due is not false
         order by job.id desc limit place.share)
        union all
        -- Without those that succeeded, the few others are found by their own index.
        (select ended.id, ended.matches
         from unnest(:unusual) as wanted (status)
         cross join lateral (
             select job.id, include(look_filter) and include(ended_duration) as matches
             from leasehold.jobs_done job
             where job.tenant_id = place.tenant_id and job.id <= place.up_to and job.status = wanted.status
               and job.status <> 'succeeded' and not :succeeded and :due is not false
             order by job.id desc limit place.share
         ) ended)
    ) each
    order by each.id desc limit place.share
) job
