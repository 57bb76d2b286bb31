-- One heartbeat: extends the lease, tells which claims are lost or to be canceled, evicts workers whose lease ran out.
with moment as materialized (
    select now, now - :lease::interval as a_lease_ago from leasehold.clock() as now
),
renewed as (
    update leasehold.workers
    set lease_expires_at = (select now from moment) + :lease::interval,
        last_seen_at = (select now from moment)
    where id = :worker
    returning id
),
-- A row that is locked is being renewed or evicted this very moment: leave it alone. One that was renewed since our
-- snapshot is judged again by its newest version. A plain DELETE would wait, and two workers that come back from the
-- same outage would deadlock, each having renewed itself and wanting to evict the other.
dead as (
    delete from leasehold.workers
    where id in (
        select id from leasehold.workers
        where lease_expires_at < (select now from moment) and id <> :worker
        for update skip locked
    )
    returning id
),
dead_sleepers as (
    delete from leasehold.sleepers
    where id in (
        select s.id from leasehold.sleepers s join dead on s.worker_id = dead.id for update of s skip locked
    )
),
held as (
    select c.number, j.cancel, j.started_at
    from unnest(:tenants::text[], :jobs::uuid[], :attempts::integer[], :batches::bigint[])
         with ordinality as c (tenant_id, job_id, attempt, claim_batch, number)
    cross join lateral (
        select j.cancel_requested_at is not null as cancel, j.started_at from leasehold.jobs j
        where j.tenant_id = c.tenant_id and j.id = c.job_id and j.attempt = c.attempt and j.worker_id = :worker
          and j.claim_batch = c.claim_batch
        limit 1
    ) j
)
select exists (select from renewed) as alive,
       array(select number from held) as held,
       array(select number from held where cancel) as cancels,
       -- Both read all entries of running jobs. While an old snapshot is held, those of jobs that ended stay among them,
       -- so a heartbeat that is not thorough reads them only if it evicted a worker itself.
       case when :thorough::boolean or exists (select from dead) then exists (
           select from leasehold.jobs j
           where j.status = 'running'
             and (j.worker_id in (select id from dead)
                  or not exists (select from leasehold.workers w where w.id = j.worker_id))
       ) else false end as orphans,
       -- Counts more claims than the worker named: it does not know the others. A younger claim may still be under way.
       case when :thorough::boolean then (
           select count(*) from leasehold.jobs j
           where j.status = 'running' and j.worker_id = :worker and j.started_at < (select a_lease_ago from moment)
       ) > (
           select count(*) from held where started_at < (select a_lease_ago from moment)
       ) else false end as strays,
       -- A pause that ends by itself is due work, too.
       (select leasehold.shown(due.first) from (
           select least(
               (
                   select min(first.scheduled_for)
                   from leasehold.startable(:definitions::text[]) as served (definition)
                   cross join lateral (
                       select j.scheduled_for from leasehold.jobs j
                       where j.status = 'queued' and not j.ready and j.definition = served.definition
                         and j.scheduled_for >= coalesce(:due_from::timestamptz, '-infinity')
                       order by j.scheduled_for limit 1
                   ) first
               ),
               (select l.paused_until from leasehold.limits l
                where l.paused_until > (select now from moment) order by l.paused_until limit 1)
           ) as first
           offset 0  -- see claim_next_tenants.sql
       ) due) - (select now from moment) as next_due,
       -- Only an idle worker looks.
       case when :look::boolean then leasehold.work_waits(:definitions::text[], :serves_tenants::text[])
       else false end as work_waits,
       -- A worker fires schedules and expands events, and learns from its heartbeat what no notification has told it.
       least(
           (select t.next_fire_at from leasehold.triggers t
            where t.next_fire_at is not null order by t.next_fire_at limit 1),
           (select e.emitted_at from leasehold.events e where e.expanded_at is null order by e.emitted_at limit 1)
       ) - (select now from moment) as next_fire,
       -- The next batch of an operation, which any worker runs.
       (select o.due_at from leasehold.operations o
        where o.due_at is not null order by o.due_at limit 1) - (select now from moment) as next_operation,
       -- Comes back to the worker's own listener, if that still receives.
       case when :probe::boolean then pg_notify(leasehold.channel(:worker), 'heartbeat') end,
       (select now from moment) as looked_at,
       date_part('epoch', leasehold.clock() - (select now from moment)) as seconds,
       -- Asked for only where it matters: PostgreSQL 14 reads it from a file.
       case when date_part('epoch', leasehold.clock() - (select now from moment)) > :cheap::float8
            then pg_stat_get_dead_tuples('leasehold.jobs'::regclass) else 0 end as dead_rows
