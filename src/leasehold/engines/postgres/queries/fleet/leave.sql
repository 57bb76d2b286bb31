-- Ends a registration, its sleep included. Claims that it still holds are orphans from now on. The name of a worker that
-- claimed nothing is deleted: no attempt refers to it, and a tick each minute would leave half a million in a year.
with asleep as (
    delete from leasehold.sleepers
    where id in (select id from leasehold.sleepers where worker_id = :worker for update skip locked)
),
unnamed as (
    delete from leasehold.worker_names where id = :worker and not :has_claimed::boolean
)
delete from leasehold.workers where id = :worker
