-- Counts registrations whose lease has run out, and running jobs without a live registration: at most :most of each
-- definition are looked at. Tells also how late the next schedule is.
with moment as materialized (
    select leasehold.clock() as now
),
living as materialized (
    select w.id from leasehold.workers w where w.lease_expires_at > (select now from moment)
),
held as (
    select job.worker_id from leasehold.definitions d
    cross join lateral (
        select j.worker_id from leasehold.jobs j where j.status = 'running' and j.definition = d.key
        order by j.tenant_id, j.started_at limit :most
    ) job
)
select (select count(*) from leasehold.workers w where w.lease_expires_at <= (select now from moment)) as workers,
       (select count(*) from held where not exists (select from living where living.id = held.worker_id)) as jobs,
       (select count(*) from living) as living,
       (select now from moment) - (
           select t.next_fire_at from leasehold.triggers t
           where t.next_fire_at is not null order by t.next_fire_at limit 1
       ) as overdue
