-- Ends an operation whose batch can't be done.
update leasehold.operations o
set state = 'failed', error = left(:error, 1000), started_at = coalesce(o.started_at, now), ended_at = now, due_at = null
from leasehold.clock() as now
where o.id = :operation::uuid and o.due_at is not null
returning include(operation_columns)
