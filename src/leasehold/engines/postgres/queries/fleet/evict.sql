-- Ends the registrations whose lease has run out, and returns claims that have no living registration.
with moment as materialized (
    select leasehold.clock() as now
),
-- Skips locked rows: see renew.sql. A heartbeat that is just committing keeps its worker alive.
dead as (
    delete from leasehold.workers
    where id in (
        select id from leasehold.workers where lease_expires_at < (select now from moment) for update skip locked
    )
    returning id
),
dead_sleepers as (
    delete from leasehold.sleepers
    where id in (
        select s.id from leasehold.sleepers s join dead on s.worker_id = dead.id for update of s skip locked
    )
)
select include(claim_columns), j.worker_id::text
from leasehold.jobs j
where j.status = 'running'
  and (j.worker_id in (select id from dead)
       or not exists (select from leasehold.workers w where w.id = j.worker_id))
limit :limit
