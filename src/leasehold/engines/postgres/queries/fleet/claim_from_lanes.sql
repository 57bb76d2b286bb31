-- Claims up to :limit ready jobs from the given lanes; tenants in turn, within a tenant by priority, then seq.
with moment as materialized (
    select leasehold.clock() as now
),
registration as materialized (
    select w.id from leasehold.workers w where w.id = :worker and w.lease_expires_at > (select now from moment)
),
-- The lanes that may start something: neither paused nor inactive nor at a cap. A capped scope counts only if its
-- lock was taken before this statement began. Each lane is read from a mark on, up to a priority.
lane as materialized (
    select l.definition, l.tenant_id, l.from_priority, l.from_seq, l.to_priority,
           t.max_running - (
               select count(*) from leasehold.definitions f
               cross join lateral (
                   select from leasehold.jobs r
                   where r.status = 'running' and r.definition = f.key and r.tenant_id = l.tenant_id
                     and r.started_at >= coalesce(t.running_from, '-infinity')
                   order by r.started_at limit t.max_running
               ) running
               where t.max_running is not null
           ) as tenant_room,
           d.max_running - (
               select count(*) from (
                   select from leasehold.jobs r
                   where r.status = 'running' and r.definition = l.definition
                     and r.started_at >= coalesce(d.running_from, '-infinity')
                   order by r.tenant_id, r.started_at limit d.max_running
               ) running
               where d.max_running is not null
           ) as definition_room,
           greatest(t.running_from, d.running_from) as running_from
    from unnest(:definitions::text[], :tenants::text[], :from_priorities::smallint[], :from_seqs::bigint[],
                :to_priorities::smallint[]) as l (definition, tenant_id, from_priority, from_seq, to_priority)
    join leasehold.definitions f on f.key = l.definition and f.active
    -- The limits keep the planner from reading all limits of a kind.
    left join lateral (
        select * from leasehold.limits where kind = 'tenant' and key = l.tenant_id limit 1
    ) t on true
    left join lateral (
        select * from leasehold.limits where kind = 'definition' and key = l.definition limit 1
    ) d on true
    where exists (select from registration)
      and (t.paused_at is null or t.paused_until <= (select now from moment))
      and (d.paused_at is null or d.paused_until <= (select now from moment))
      and (t.max_running is null or l.tenant_id = any (:locked_tenants::text[]))
      and (d.max_running is null or l.definition = any (:locked_definitions::text[]))
),
-- A fair share of each lane, locked. Rows that another claimer holds are passed over.
picked as materialized (
    select job.ctid, job.priority, job.seq, lane.tenant_id, lane.definition, lane.tenant_room, lane.definition_room
    from lane
    cross join lateral (
        select j.ctid, j.priority, j.seq
        from leasehold.jobs j
        where j.ready and j.definition = lane.definition and j.tenant_id = lane.tenant_id
          and (j.priority, j.seq) > (lane.from_priority, lane.from_seq) and j.priority <= lane.to_priority
        order by j.priority, j.seq
        limit greatest(0, least(:share, lane.tenant_room, lane.definition_room))
        for update skip locked
    ) job
),
-- One tenant's lanes merge by (priority, seq): `turn` is the job's place among its tenant's.
in_turn as (
    select picked.*, row_number() over (partition by tenant_id order by priority, seq) as turn from picked
),
within_caps as (
    select in_turn.*, row_number() over (partition by definition order by turn, priority, seq) as of_definition
    from in_turn
    where turn <= coalesce(tenant_room, turn)
),
chosen as materialized (
    select ctid, turn from within_caps
    where of_definition <= coalesce(definition_room, of_definition)
    order by turn, priority, seq limit :limit
),
-- While an old snapshot is held, entries of jobs that ended stay in the index, and counting walked over all of them (12
-- ms became 70 over 100,000 jobs). All claims of a capped scope hold its lock, so none is under way now, and what runs
-- is seen here: nothing that started earlier will ever run. A claim that began before the scope was capped holds no
-- lock; ten minutes later it has ended. Not at each claim, since versions of this row would pile up as well.
settled_scope as materialized (
    select l.* from (
        select 'tenant', unnest(:locked_tenants::text[]) union all
        select 'definition', unnest(:locked_definitions::text[])
    ) as scope (kind, key)
    cross join lateral (
        select l.ctid, l.kind, l.key, coalesce(l.running_from, '-infinity') as running_from from leasehold.limits l
        where l.kind = scope.kind and l.key = scope.key
          and l.capped_at < (select now from moment) - interval '10 minutes'
        limit 1 for no key update skip locked
    ) l
    where :advance::boolean
),
advanced as (
    update leasehold.limits l
    set running_from = least(
        case when s.kind = 'tenant' then (
            select min(first.started_at) from leasehold.definitions f
            cross join lateral (
                select r.started_at from leasehold.jobs r
                where r.status = 'running' and r.definition = f.key and r.tenant_id = s.key
                  and r.started_at >= s.running_from
                order by r.started_at limit 1
            ) first
        ) else (
            select min(r.started_at) from leasehold.jobs r
            where r.status = 'running' and r.definition = s.key and r.started_at >= s.running_from
        ) end,
        (select now from moment))
    from settled_scope s
    where l.ctid = s.ctid
)
update leasehold.jobs j
set status = 'running', ready = false, attempt = j.attempt + 1, worker_id = :worker, claim_batch = :batch,
    -- A clock that was set back must not make it start before what is counted.
    started_at = greatest((select now from moment), (select max(running_from) from lane))
from chosen
where j.ctid = chosen.ctid
returning include(claim_columns), j.seq, chosen.turn, (select count(*) from chosen) as chosen
