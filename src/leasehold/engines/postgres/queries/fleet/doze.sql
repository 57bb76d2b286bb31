-- Narrows a sleep: this worker wakes by itself for what is due later. A row that a producer holds is left as it is.
update leasehold.sleepers
set wakes_at = (select leasehold.clock()) + :next_due::interval
where id in (select id from leasehold.sleepers where id = :sleep for update skip locked)
