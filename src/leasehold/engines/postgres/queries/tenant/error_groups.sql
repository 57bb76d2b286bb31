-- Returns error groups of a tenant, or the only one that is asked for; each with the figures of its newest jobs.
--
-- No statement lists groups by time. But there are few of them, and the index leads from one to the next by a probe.
with recursive known as (
    (select include(error_group) as id
     from leasehold.jobs_done j
     where :only::bytea is null and j.tenant_id = :tenant and j.status in ('failed', 'dead_letter')
     order by include(error_group) limit 1)
    union all
    select (select include(error_group)
            from leasehold.jobs_done j
            where j.tenant_id = :tenant and j.status in ('failed', 'dead_letter') and include(error_group) > known.id
            order by include(error_group) limit 1)
    from known where known.id is not null
),
wanted as (
    (select known.id from known where known.id is not null limit :limit)
    union all
    select :only::bytea where :only::bytea is not null
)
select wanted.id as error_group, newest.tenant_id, newest.id, newest.definition, newest.last_error_code,
       newest.last_error, figures.jobs, figures.recent, leasehold.shown(figures.last_at) as last_at,
       leasehold.shown(least(figures.first_at, oldest.finished_at)) as first_at
from wanted
cross join lateral (
    select j.tenant_id, j.id, j.definition, j.last_error_code, j.last_error
    from leasehold.jobs_done j
    where j.tenant_id = :tenant and j.status in ('failed', 'dead_letter') and include(error_group) = wanted.id
    order by include(error_group) desc, j.id desc limit 1
) newest
cross join lateral (
    select j.finished_at
    from leasehold.jobs_done j
    where j.tenant_id = :tenant and j.status in ('failed', 'dead_letter') and include(error_group) = wanted.id
    order by include(error_group), j.id limit 1
) oldest
cross join lateral (
    select count(*) as jobs, min(looked.finished_at) as first_at, max(looked.finished_at) as last_at,
           count(*) filter (where looked.finished_at > (select leasehold.clock()) - interval '24 hours') as recent
    from (
        select j.finished_at
        from leasehold.jobs_done j
        where j.tenant_id = :tenant and j.status in ('failed', 'dead_letter') and include(error_group) = wanted.id
        order by include(error_group) desc, j.id desc limit :counted
    ) looked
) figures
