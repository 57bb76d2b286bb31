-- Ends a registration, its sleep included. Claims that it still holds are orphans from now on.
with asleep as (
    delete from leasehold.sleepers
    where id in (select id from leasehold.sleepers where worker_id = :worker for update skip locked)
)
delete from leasehold.workers where id = :worker
