-- Claims all ready jobs that a worker serves, if they are few: for a worker that was idle a moment ago.
--
-- claim_next_tenants.sql shares a backlog out among tenants, by 190 plan nodes: for one job it takes half as long again
-- as this. If all ready jobs fit into :limit, there is nothing to share out. If there are more, or a pause, a cap or a
-- due job is in the way, this claims nothing and says so (`all_free` is false).
with moment as materialized (
    select leasehold.clock() as now
),
registration as materialized (
    select w.id from leasehold.workers w where w.id = :worker and w.lease_expires_at > (select now from moment)
),
future as materialized (
    select min(first.scheduled_for) as due
    from unnest(:definitions::text[]) as served (definition)
    join leasehold.definitions d on d.key = served.definition and d.active
    cross join lateral (
        select j.scheduled_for from leasehold.jobs j
        where j.status = 'queued' and not j.ready and j.definition = served.definition
          and j.scheduled_for >= coalesce(:due_from::timestamptz, '-infinity')
        order by j.scheduled_for limit 1
    ) first
),
-- Mostly there is one gap, of all tenants. While an old snapshot is held, the gaps leave out lanes with many entries of
-- jobs that were claimed long ago; those lanes are read from their positions on. Before PostgreSQL 18 a comparison of
-- rows does not end a scan, so that gap and lane have conditions of their own. The moment comes first, so that `seconds`
-- counts this look.
waiting as materialized (
    select * from (
        select job.ctid, job.tenant_id, gap.definition
        from moment
        cross join unnest(:gap_definitions::text[], :gaps_after::text[], :gaps_before::text[])
             as gap (definition, after, before)
        cross join lateral (
            select j.ctid, j.tenant_id from leasehold.jobs j
            where j.ready and j.definition = gap.definition and j.tenant_id > gap.after and j.tenant_id < gap.before
            order by j.tenant_id, j.priority, j.seq limit :limit + 1
        ) job
        union all
        select job.ctid, lane.tenant_id, lane.definition
        from unnest(:lane_definitions::text[], :lane_tenants::text[], :from_priorities::smallint[],
                    :from_seqs::bigint[], :to_priorities::smallint[])
             as lane (definition, tenant_id, from_priority, from_seq, to_priority)
        cross join lateral (
            select j.ctid from leasehold.jobs j
            where j.ready and j.definition = lane.definition and j.tenant_id = lane.tenant_id
              and (j.priority, j.seq) > (lane.from_priority, lane.from_seq) and j.priority <= lane.to_priority
            order by j.priority, j.seq limit :limit + 1
        ) job
    ) job
    limit :limit + 1
),
all_free as materialized (
    select (select count(*) from waiting) <= :limit
       and coalesce((select due from future) > (select now from moment), true)
       and not exists (
           select from waiting
           where not exists (select from leasehold.definitions d where d.key = waiting.definition and d.active)
              or exists (select from leasehold.limits l
                         where l.kind = 'definition' and l.key = waiting.definition
                           and (l.max_running is not null or l.paused_at is not null
                                and coalesce(l.paused_until > (select now from moment), true)))
              or exists (select from leasehold.limits l
                         where l.kind = 'tenant' and l.key = waiting.tenant_id
                           and (l.max_running is not null or l.paused_at is not null
                                and coalesce(l.paused_until > (select now from moment), true)))
       ) as yes
),
-- Rows that another claimer holds are passed over.
picked as materialized (
    select job.ctid, row_number() over (partition by job.tenant_id order by job.priority, job.seq) as turn
    from waiting
    cross join lateral (
        select j.ctid, j.tenant_id, j.priority, j.seq from leasehold.jobs j
        where j.ctid = waiting.ctid and j.ready
        for update skip locked
    ) job
    where (select yes from all_free) and exists (select from registration)
),
claimed as (
    update leasehold.jobs j
    set status = 'running', ready = false, attempt = j.attempt + 1, worker_id = :worker,
        claim_batch = :batch, started_at = (select now from moment)
    from picked
    where j.ctid = picked.ctid
    returning include(claim_columns), j.seq, picked.turn
)
select j.*,
       exists (select from registration) as alive,
       (select yes from all_free) as all_free,
       (select count(*) from waiting) as waiting,
       (select now from moment) as looked_at,
       date_part('epoch', leasehold.clock() - (select now from moment)) as seconds,
       -- Asked for only where it matters: PostgreSQL 14 reads it from a file.
       case when date_part('epoch', leasehold.clock() - (select now from moment)) > :cheap::float8
            then pg_stat_get_dead_tuples('leasehold.jobs'::regclass) else 0 end as dead_rows,
       pg_sequence_last_value('leasehold.jobs_seq'::regclass) as last_seq,
       -- A pause that ends by itself is due work, too.
       (select leasehold.shown(first.due) from (
           select least(
               (select due from future),
               (select l.paused_until from leasehold.limits l
                where l.paused_until > (select now from moment) order by l.paused_until limit 1)
           ) as due
           offset 0  -- see claim_next_tenants.sql
       ) first) - (select now from moment) as next_due
from (values (true)) as always (here)
left join claimed j on true
