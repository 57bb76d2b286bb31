-- Shows lanes as a claim sees them: active or not, paused, at a cap, and the number of live workers that serve them.
with moment as materialized (
    select leasehold.clock() as now
)
select lane.number, coalesce(d.active, false) as active,
       living.workers, living.elsewhere,
       case when of_definition.paused_until > now or of_definition.paused_until is null
            then of_definition.pause_reason end as definition_pause,
       leasehold.shown(of_definition.paused_until) as definition_paused_until,
       case when of_definition.max_running <= (
           select count(*) from (
               select from leasehold.jobs r where r.status = 'running' and r.definition = lane.definition
               order by r.tenant_id, r.started_at limit of_definition.max_running
           ) running
       ) then of_definition.max_running end as definition_cap,
       case when of_tenant.paused_until > now or of_tenant.paused_until is null
            then of_tenant.pause_reason end as tenant_pause,
       leasehold.shown(of_tenant.paused_until) as tenant_paused_until,
       case when of_tenant.max_running <= (
           select count(*) from leasehold.definitions f
           cross join lateral (
               select from leasehold.jobs r
               where r.status = 'running' and r.definition = f.key and r.tenant_id = lane.tenant_id
               order by r.started_at limit of_tenant.max_running
           ) running
       ) then of_tenant.max_running end as tenant_cap
from unnest(:definitions::text[], :tenants::text[]) with ordinality as lane (definition, tenant_id, number)
cross join moment
cross join lateral (
    select count(*) filter (where here) as workers, count(*) filter (where not here) as elsewhere
    from (
        select w.tenants is null or lane.tenant_id = any (w.tenants) as here from leasehold.workers w
        where w.lease_expires_at > moment.now and lane.definition = any (w.definitions)
    ) serving
) living
left join leasehold.definitions d on d.key = lane.definition
left join leasehold.limits of_definition on of_definition.kind = 'definition' and of_definition.key = lane.definition
left join leasehold.limits of_tenant on of_tenant.kind = 'tenant' and of_tenant.key = lane.tenant_id
order by lane.number
