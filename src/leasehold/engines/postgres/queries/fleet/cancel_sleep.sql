-- Ends a sleep that turned into work. A row that a producer holds is left to it.
delete from leasehold.sleepers
where id in (select id from leasehold.sleepers where worker_id = :worker for update skip locked)
