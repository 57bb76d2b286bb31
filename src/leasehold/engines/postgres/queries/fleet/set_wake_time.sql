-- Narrows a sleep: this worker wakes by itself for what is due later. A row that a producer holds is left as it is.
update leasehold.sleepers
-- In seconds: see requeue.sql.
set wakes_at = (select leasehold.clock()) + extract(epoch from :next_due::interval) * interval '1 second'
where id in (select id from leasehold.sleepers where id = :sleep for update skip locked)
