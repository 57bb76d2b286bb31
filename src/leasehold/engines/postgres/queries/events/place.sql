-- Writes an event with its jobs and decisions. Without a name it is one that is written, and waits to be expanded.
select cast(trigger_id as text) as trigger, kind, cast(job_id as text) as job, reason, why
from leasehold.place_event(cast(:tenant as text), cast(:id as uuid), cast(:name as text),
                           cast(cast(:data as text) as jsonb), cast(:correlation_id as text),
                           cast(:created_by as text), cast(cast(:emitted_at as text) as timestamptz),
                           cast(cast(:decisions as text) as jsonb), cast(:wakes as boolean))
