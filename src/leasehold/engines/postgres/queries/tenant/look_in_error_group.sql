-- Looks at a tenant's newest jobs of an error group, behind a cursor, and tells which of them match a filter.
select include(seen_jobs)
from (
    select job.id,
           job.status = any (:unusual::text[]) and :due::boolean is not false
           and include(look_filter) and include(ended_duration) as matches
    from (
        select j.* from leasehold.jobs_done j
        where j.tenant_id = :tenant and j.status in ('failed', 'dead_letter')
          and include(error_group) = :error_group::bytea and j.id <= :up_to::uuid
        order by include(error_group) desc, j.id desc limit :share
    ) job
    order by job.id desc
) job
