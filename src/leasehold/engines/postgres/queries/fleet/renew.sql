-- One heartbeat: extends the lease, says which claims are lost or to be canceled, evicts the dead.
with moment as materialized (
    select leasehold.clock() as now
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
    select c.number, j.cancel
    from unnest(:tenants::text[], :jobs::uuid[], :attempts::integer[])
         with ordinality as c (tenant_id, job_id, attempt, number)
    cross join lateral (
        select j.cancel_requested_at is not null as cancel from leasehold.jobs j
        where j.tenant_id = c.tenant_id and j.id = c.job_id and j.attempt = c.attempt and j.worker_id = :worker
        limit 1
    ) j
)
select exists (select from renewed) as alive,
       array(select number from held) as held,
       array(select number from held where cancel) as cancels,
       exists (
           select from leasehold.jobs j
           where j.status = 'running'
             and (j.worker_id in (select id from dead)
                  or not exists (select from leasehold.workers w where w.id = j.worker_id))
       ) as orphans,
       (
           select min(first.scheduled_for) - (select now from moment)
           from unnest(:definitions::text[]) as served (definition)
           cross join lateral (
               select j.scheduled_for from leasehold.jobs j
               where j.status = 'queued' and not j.ready and j.definition = served.definition
               order by j.scheduled_for limit 1
           ) first
       ) as next_due
