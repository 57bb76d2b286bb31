-- Returns error groups of all tenants, or the only one that is asked for in each of them.
--
-- As for one tenant: the index leads from one group of a tenant to the next by a probe.
with recursive known as (
    (select j.tenant_id, include(error_group) as id
     from leasehold.jobs_done j
     where :only::bytea is null and j.status in ('failed', 'dead_letter')
     order by j.tenant_id, include(error_group) limit 1)
    union all
    select following.tenant_id, following.id
    from known cross join lateral (
        select j.tenant_id, include(error_group) as id
        from leasehold.jobs_done j
        where j.status in ('failed', 'dead_letter') and (j.tenant_id, include(error_group)) > (known.tenant_id, known.id)
        order by j.tenant_id, include(error_group) limit 1
    ) following
),
wanted as (
    (select known.tenant_id, known.id from known limit :limit)
    union all
    (select t.id, :only::bytea from leasehold.tenants t
     where :only::bytea is not null and exists (
         select from leasehold.jobs_done j
         where j.tenant_id = t.id and j.status in ('failed', 'dead_letter') and include(error_group) = :only::bytea
     )
     limit :limit)
)
select wanted.id as error_group, newest.tenant_id, newest.id, newest.definition, newest.last_error_code,
       newest.last_error, figures.jobs, figures.recent, leasehold.shown(figures.last_at) as last_at,
       leasehold.shown(least(figures.first_at, oldest.finished_at)) as first_at
from wanted
cross join lateral (
    select j.tenant_id, j.id, j.definition, j.last_error_code, j.last_error
    from leasehold.jobs_done j
    where j.tenant_id = wanted.tenant_id and j.status in ('failed', 'dead_letter') and include(error_group) = wanted.id
    order by include(error_group) desc, j.id desc limit 1
) newest
cross join lateral (
    select j.finished_at
    from leasehold.jobs_done j
    where j.tenant_id = wanted.tenant_id and j.status in ('failed', 'dead_letter') and include(error_group) = wanted.id
    order by include(error_group), j.id limit 1
) oldest
cross join lateral (
    select count(*) as jobs, min(looked.finished_at) as first_at, max(looked.finished_at) as last_at,
           count(*) filter (where looked.finished_at > (select leasehold.clock()) - interval '24 hours') as recent
    from (
        select j.finished_at
        from leasehold.jobs_done j
        where j.tenant_id = wanted.tenant_id and j.status in ('failed', 'dead_letter')
          and include(error_group) = wanted.id
        order by include(error_group) desc, j.id desc limit :counted
    ) looked
) figures
