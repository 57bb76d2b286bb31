-- Begins a sleep: from now on producers see that this worker can be woken. Never waits for a producer.
with older as (
    delete from leasehold.sleepers
    where id in (select id from leasehold.sleepers where worker_id = :worker for update skip locked)
)
insert into leasehold.sleepers (worker_id, definitions, tenants)
values (:worker, :definitions::text[], :tenants::text[])
returning id
