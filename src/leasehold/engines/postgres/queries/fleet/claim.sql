-- Claims up to :limit ready jobs from the given lanes; tenants in turn, within a tenant by priority, then seq.
with moment as materialized (
    select leasehold.clock() as now
),
seat as materialized (
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
                   order by r.worker_id limit t.max_running
               ) running
               where t.max_running is not null
           ) as tenant_room,
           d.max_running - (
               select count(*) from (
                   select from leasehold.jobs r where r.status = 'running' and r.definition = l.definition
                   order by r.tenant_id, r.worker_id limit d.max_running
               ) running
               where d.max_running is not null
           ) as definition_room
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
    where exists (select from seat)
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
)
update leasehold.jobs j
set status = 'running', ready = false, attempt = j.attempt + 1, worker_id = :worker,
    started_at = (select now from moment)
from chosen
where j.ctid = chosen.ctid
-- No column costs the client as much as a uuid or a moment, so it gets neither.
returning j.tenant_id, j.id::text, j.attempt, j.definition, j.version, j.payload, j.max_attempts, j.forgiven,
          date_part('epoch', j.queued_at) as queued, date_part('epoch', j.started_at) as started,
          j.correlation_id, false as cancel_requested,
          coalesce(j.deadline < (select now from moment), false) as overdue,
          j.priority, j.seq, chosen.turn, (select count(*) from chosen) as chosen
