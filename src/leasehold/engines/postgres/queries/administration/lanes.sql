-- Shows lanes as a claim sees them: active or not, paused, their limits with the jobs that run under them, and the number
-- of live workers that serve them and do not drain.
with moment as materialized (
    select leasehold.clock() as now
)
select lane.number, d.key is not null as known, coalesce(d.active, false) as active,
       living.workers, living.elsewhere,
       of_definition.pause_reason as definition_pause,
       leasehold.shown(of_definition.paused_at) as definition_paused_since,
       leasehold.shown(of_definition.paused_until) as definition_paused_until,
       of_definition.paused_by as definition_paused_by,
       of_definition.max_running as definition_cap,
       under_definition.jobs as definition_running,
       under_definition.oldest as definition_oldest,
       leasehold.shown(under_definition.since) as definition_oldest_since,
       of_tenant.pause_reason as tenant_pause,
       leasehold.shown(of_tenant.paused_at) as tenant_paused_since,
       leasehold.shown(of_tenant.paused_until) as tenant_paused_until,
       of_tenant.paused_by as tenant_paused_by,
       of_tenant.max_running as tenant_cap,
       under_tenant.jobs as tenant_running,
       under_tenant.oldest as tenant_oldest,
       leasehold.shown(under_tenant.since) as tenant_oldest_since
from unnest(:definitions::text[], :tenants::text[]) with ordinality as lane (definition, tenant_id, number)
cross join moment
cross join lateral (
    select count(*) filter (where here) as workers, count(*) filter (where not here) as elsewhere
    from (
        select w.tenants is null or lane.tenant_id = any (w.tenants) as here from leasehold.workers w
        where w.lease_expires_at > moment.now and w.drains_since is null and lane.definition = any (w.definitions)
    ) serving
) living
left join leasehold.definitions d on d.key = lane.definition
-- A pause that is over has no reason. The limits keep the planner from reading all limits of a kind.
left join lateral (
    select l.max_running, l.paused_at, l.paused_until, l.paused_by,
           case when l.paused_until > moment.now or l.paused_until is null then l.pause_reason end as pause_reason
    from leasehold.limits l where l.kind = 'definition' and l.key = lane.definition limit 1
) of_definition on true
left join lateral (
    select l.max_running, l.paused_at, l.paused_until, l.paused_by,
           case when l.paused_until > moment.now or l.paused_until is null then l.pause_reason end as pause_reason
    from leasehold.limits l where l.kind = 'tenant' and l.key = lane.tenant_id limit 1
) of_tenant on true
-- The id of the oldest job is shown only if it is one of the lane's own tenant.
cross join lateral (
    select count(*) as jobs, min(running.started_at) as since,
           (array_agg(case when running.tenant_id = lane.tenant_id then running.id end order by running.started_at))[1]
               as oldest
    from (
        select r.id, r.tenant_id, r.started_at from leasehold.jobs r
        where r.status = 'running' and r.definition = lane.definition and of_definition.max_running is not null
        order by r.tenant_id, r.started_at limit of_definition.max_running
    ) running
) under_definition
cross join lateral (
    select count(*) as jobs, min(running.started_at) as since,
           (array_agg(running.id order by running.started_at))[1] as oldest
    from (
        select r.id, r.started_at from leasehold.definitions f
        cross join lateral (
            select r.id, r.started_at from leasehold.jobs r
            where r.status = 'running' and r.definition = f.key and r.tenant_id = lane.tenant_id
            order by r.started_at limit of_tenant.max_running
        ) r
        where of_tenant.max_running is not null
        limit of_tenant.max_running
    ) running
) under_tenant
order by lane.number
