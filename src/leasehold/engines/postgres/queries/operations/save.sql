-- Moves an operation on after a batch, in the transaction of that batch.
update leasehold.operations o
set state = :state, canary = :canary, canary_job = :canary_job::uuid, place = coalesce(:place, o.place), done = :done,
    skipped = :skipped, refused = :refused, details = :details::jsonb, error = left(:error, 1000),
    started_at = coalesce(o.started_at, now), ended_at = case when :ended::boolean then now end,
    due_at = case when not :ended then now + :wait::float8 * interval '1 second' end
from leasehold.clock() as now
where o.id = :operation::uuid
returning include(operation_columns)
