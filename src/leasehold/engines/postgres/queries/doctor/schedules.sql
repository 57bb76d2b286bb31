-- Counts schedules that fire, and names the definitions of those whose jobs no live worker runs.
--
-- The schedules that fire next are looked at, a bounded number. A schedule that is disabled, deleted or paused without an
-- end does not fire.
with living as materialized (
    select w.definitions, w.tenants from leasehold.workers w where w.lease_expires_at > (select leasehold.clock())
),
firing as materialized (
    select t.definition, t.tenant_id from leasehold.triggers t
    where t.next_fire_at is not null order by t.next_fire_at limit :most
),
unserved as (
    select firing.definition, count(*) as schedules from firing
    where not exists (
        select from living
        where firing.definition = any (living.definitions)
          -- A schedule for all tenants has jobs for those that the worker serves.
          and (living.tenants is null or firing.tenant_id = '' or firing.tenant_id = any (living.tenants))
    )
    group by firing.definition
)
select (select count(*) from firing) as schedules,
       (select coalesce(sum(schedules), 0)::bigint from unserved) as without_worker,
       array(select definition from unserved order by definition) as unserved
