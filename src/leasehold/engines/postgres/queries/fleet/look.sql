-- The next lanes with ready work after a tenant, tenant by tenant; whether the seat lives; when the next job is due.
--
-- A loose scan of the index: one probe per definition for each tenant found, whatever lies between them. The full
-- list cost 290 ms for 50,000 lanes, so it is read in pieces.
with recursive moment as materialized (
    select leasehold.clock() as now
),
-- Definitions that may start something now. One at its cap or paused drops out here, before its tenants are walked.
served as materialized (
    select d.key as definition, l.max_running is not null as capped
    from leasehold.definitions d
    left join lateral (
        select * from leasehold.limits where kind = 'definition' and key = d.key limit 1
    ) l on true
    where d.key = any (:definitions::text[]) and d.active
      and (l.paused_at is null or l.paused_until <= (select now from moment))
      and (l.max_running is null or l.max_running > (
               select count(*) from (
                   select from leasehold.jobs r where r.status = 'running' and r.definition = d.key
                   order by r.tenant_id, r.worker_id limit l.max_running
               ) running))
),
tenant as (
    select :after::text collate "C" as id, 0 as number
    union all
    select next.id, tenant.number + 1
    from tenant
    cross join lateral (
        select min(first.tenant_id) as id
        from served
        cross join lateral (
            (select j.tenant_id from leasehold.jobs j
             where j.ready and j.definition = served.definition and j.tenant_id > tenant.id
               and :tenants::text[] is null
             order by j.tenant_id, j.priority, j.seq limit 1)
            union all
            (select mine.id from unnest(:tenants::text[]) as mine (id) where mine.id > tenant.id
             order by mine.id collate "C" limit 1)
        ) first
    ) next
    where tenant.number < :most and next.id is not null
),
lane as (
    select tenant.number, tenant.id as tenant_id, served.definition,
           served.capped or l.max_running is not null as capped
    from tenant
    cross join served
    -- The limit keeps the planner from turning this into a walk over all that is ready.
    cross join lateral (
        select from leasehold.jobs j
        where j.ready and j.definition = served.definition and j.tenant_id = tenant.id
        order by j.priority, j.seq limit 1
    ) has_work
    left join lateral (
        select * from leasehold.limits where kind = 'tenant' and key = tenant.id limit 1
    ) l on true
    where tenant.number > 0
      and (l.paused_at is null or l.paused_until <= (select now from moment))
      and (l.max_running is null or l.max_running > (
               select count(*) from leasehold.definitions f
               cross join lateral (
                   select from leasehold.jobs r
                   where r.status = 'running' and r.definition = f.key and r.tenant_id = tenant.id
                   order by r.worker_id limit l.max_running
               ) running))
)
select exists (
           select from leasehold.workers w where w.id = :worker and w.lease_expires_at > (select now from moment)
       ) as alive,
       (select max(number) from tenant) as tenants_seen,
       (select id from tenant order by number desc limit 1) as last_tenant,
       array(select tenant_id from lane order by number, definition) as tenants,
       array(select definition from lane order by number, definition) as definitions,
       array(select capped from lane order by number, definition) as capped,
       -- A pause that ends by itself is due work, too.
       least(
           (select min(first.scheduled_for) from served
            cross join lateral (
                select j.scheduled_for from leasehold.jobs j
                where j.status = 'queued' and not j.ready and j.definition = served.definition
                order by j.scheduled_for limit 1
            ) first),
           (select l.paused_until from leasehold.limits l
            where l.paused_until > (select now from moment) order by l.paused_until limit 1)
       ) - (select now from moment) as next_due
