-- Tells how long until the next batch of any operation is due.
select o.due_at - leasehold.clock() as wait from leasehold.operations o
where o.due_at is not null and (:only::uuid is null or o.id = :only)
order by o.due_at limit 1
