-- Locks an operation whose next batch is due. Passes over those that other runners have.
select include(operation_columns) from leasehold.operations o
where o.due_at <= (select leasehold.clock()) and (:only::uuid is null or o.id = :only)
order by o.due_at limit 1
for update skip locked
