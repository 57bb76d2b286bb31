-- Claims up to :limit jobs of the next tenants in turn, and says which lanes it saw and when the next job is due.
--
-- To look first and claim afterwards would be two round trips for a job that comes alone, and under load the lanes
-- would be those of some time ago. A limit of 0 only looks. Lanes with a cap are only seen: their locks come first.
with recursive moment as materialized (
    select leasehold.clock() as now
),
-- Definitions that may start something now. One at its cap or paused drops out here, before its tenants are walked.
served as materialized (
    select d.key as definition, row_number() over () as place, l.max_running is not null as capped
    from leasehold.definitions d
    left join lateral (
        select * from leasehold.limits where kind = 'definition' and key = d.key limit 1
    ) l on true
    where d.key = any (:definitions::text[]) and d.active
      and (l.paused_at is null or l.paused_until <= (select now from moment))
      and (l.max_running is null or l.max_running > (
               select count(*) from (
                   select from leasehold.jobs r
                   where r.status = 'running' and r.definition = d.key
                     and r.started_at >= coalesce(l.running_from, '-infinity')
                   order by r.tenant_id, r.started_at limit l.max_running
               ) running))
),
future as materialized (
    select min(first.scheduled_for) as due
    from served
    cross join lateral (
        select j.scheduled_for from leasehold.jobs j
        where j.status = 'queued' and not j.ready and j.definition = served.definition
          and j.scheduled_for >= coalesce(:due_from::timestamptz, '-infinity')
        order by j.scheduled_for limit 1
    ) first
),
-- A loose scan of the index: one probe for each tenant found and each of its definitions, however many jobs lie
-- between; `firsts` has the next tenant of each definition, by its place. The scan begins behind the last tenant, and
-- from the end goes on at the beginning (the row that is not `found`), up to :until. The whole list took 290 ms for
-- 50,000 lanes, so it is read in pieces.
tenant as (
    select :after::text collate "C" as id, null::text[] collate "C" as firsts, 0 as number,
           :around::boolean as around, false as found
    union all
    select coalesce(next.id, ''), case when next.id is not null then next.firsts end,
           tenant.number + (next.id is not null)::integer, tenant.around or next.id is null, next.id is not null
    from tenant
    cross join lateral (
        select min(first.tenant_id) as id, array_agg(first.tenant_id order by served.place) as firsts
        from served
        cross join lateral (
            select case
                when tenant.firsts[served.place] > tenant.id then tenant.firsts[served.place]
                when tenant.firsts[served.place] is null and tenant.found then null
                when :tenants::text[] is not null then (
                    select min(mine.id collate "C") from unnest(:tenants::text[]) as mine (id) where mine.id > tenant.id
                )
                else (
                    select j.tenant_id from leasehold.jobs j
                    where j.ready and j.definition = served.definition and j.tenant_id > tenant.id
                    order by j.tenant_id, j.priority, j.seq limit 1
                )
            end as tenant_id
            offset 0  -- or it would be probed twice, once for each of the two aggregates
        ) first
    ) next
    where tenant.number < :most and case when tenant.around then next.id <= coalesce(:until, next.id) else true end
),
lane as materialized (
    select tenant.number, tenant.id as tenant_id, served.definition,
           served.capped or l.max_running is not null as capped
    from tenant
    cross join served
    -- Tenants that are named may have no work; those that were found have.
    cross join lateral (
        select where :tenants::text[] is null
        union all
        (select from leasehold.jobs j
         where j.ready and j.definition = served.definition and j.tenant_id = tenant.id and :tenants::text[] is not null
         order by j.priority, j.seq limit 1)
    ) has_work
    left join lateral (
        select * from leasehold.limits where kind = 'tenant' and key = tenant.id limit 1
    ) l on true
    where tenant.found and tenant.firsts[served.place] = tenant.id
      and (l.paused_at is null or l.paused_until <= (select now from moment))
      and (l.max_running is null or l.max_running > (
               select count(*) from leasehold.definitions f
               cross join lateral (
                   select from leasehold.jobs r
                   where r.status = 'running' and r.definition = f.key and r.tenant_id = tenant.id
                     and r.started_at >= coalesce(l.running_from, '-infinity')
                   order by r.started_at limit l.max_running
               ) running))
),
registration as materialized (
    select w.id from leasehold.workers w where w.id = :worker and w.lease_expires_at > (select now from moment)
),
placed as materialized (
    select lane.*, dense_rank() over (order by number) as place, count(*) over of_tenant as lanes,
           bool_or(capped) over of_tenant as waits_for_locks
    from lane
    window of_tenant as (partition by number)
),
-- Each tenant's share of the limit. Capped tenants count, so that their share is left for them. Jobs that came due
-- meanwhile have to be in their lanes first, since they may be more urgent.
sharing as materialized (
    select placed.*, :limit / tenants + (place <= :limit % tenants)::integer as share
    from placed cross join lateral (select (select max(place) from placed) as tenants) counted
    where not waits_for_locks and :limit > 0 and exists (select from registration)
      and (:even_if_due or coalesce((select due from future) > (select now from moment), true))
),
-- A tenant's lanes merge by (priority, seq), unlocked: of ten lanes, all but a tenth of the locks would be for nothing.
allotted as materialized (
    select number, tenant_id, definition, share as jobs from sharing where lanes = 1
    union all
    select number, tenant_id, definition, count(*)
    from (
        select s.*, row_number() over (partition by s.number order by first.priority, first.seq) as turn
        from sharing s
        cross join lateral (
            select j.priority, j.seq from leasehold.jobs j
            where j.ready and j.definition = s.definition and j.tenant_id = s.tenant_id
            order by j.priority, j.seq limit s.share
        ) first
        where s.lanes > 1
    ) merged
    where turn <= share
    group by number, tenant_id, definition
),
-- Rows that another claimer holds are passed over.
picked as materialized (
    select job.ctid, row_number() over (partition by allotted.number order by job.priority, job.seq) as turn
    from allotted
    cross join lateral (
        select j.ctid, j.priority, j.seq from leasehold.jobs j
        where j.ready and j.definition = allotted.definition and j.tenant_id = allotted.tenant_id
        order by j.priority, j.seq limit allotted.jobs
        for update skip locked
    ) job
),
claimed as (
    update leasehold.jobs j
    set status = 'running', ready = false, attempt = j.attempt + 1, worker_id = :worker,
        claim_batch = :batch, started_at = (select now from moment)
    from picked
    where j.ctid = picked.ctid
    returning include(claim_columns), j.seq, picked.turn
),
-- Lanes that another statement has to claim from: those that wait for locks, or all if this one only looks.
seen as materialized (
    select number, tenant_id, definition, capped from placed where waits_for_locks or :limit = 0
),
-- Facts about the look.
facts as materialized (
    select exists (select from registration) as alive,
           (select now from moment) as looked_at,
           date_part('epoch', leasehold.clock() - (select now from moment)) as seconds,
           -- Asked for only where it matters: PostgreSQL 14 reads it from a file.
           case when date_part('epoch', leasehold.clock() - (select now from moment)) > :cheap::float8
                then pg_stat_get_dead_tuples('leasehold.jobs'::regclass) else 0 end as dead_rows,
           (select count(*) from picked) as picked,
           (select max(place) from placed) as tenants_sharing,
           (select count(*) from tenant where found) as tenants_seen,
           (select id from tenant where found order by number desc limit 1) as last_tenant,
           (select tenant_id from placed where place <= :limit order by place desc limit 1) as last_served,
           (select bool_or(around) from tenant) as around,
           array(select tenant_id from seen order by number, definition) as tenants,
           array(select definition from seen order by number, definition) as definitions,
           array(select capped from seen order by number, definition) as capped,
           -- A pause that ends by itself is due work, too.
           (select leasehold.shown(first.due) from (
               select least(
                   (select due from future),
                   (select l.paused_until from leasehold.limits l
                    where l.paused_until > (select now from moment) order by l.paused_until limit 1)
               ) as due
               offset 0  -- or the planner could not put the function in place, and would plan it at each claim
           ) first) - (select now from moment) as next_due
)
-- The facts stand in the first row only, which exists even if nothing was claimed. They are joined as a whole: a
-- condition for each of them took 0.2 µs of each job.
select j.*, facts.*
from (values (true)) as always (here)
left join claimed j on true
left join facts on j.seq is not distinct from (select seq from claimed limit 1)
