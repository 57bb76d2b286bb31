-- Writes an event with its jobs and decisions as events/place.sql does, in a transaction of its tenant.
select cast(trigger_id as text) as trigger, kind, cast(job_id as text) as job, reason, why
from leasehold.place_own_event(cast(:tenant as text), cast(:id as uuid), cast(:name as text),
                               cast(cast(:data as text) as jsonb), cast(:correlation_id as text),
                               cast(:created_by as text), cast(cast(:emitted_at as text) as timestamptz),
                               cast(cast(:decisions as text) as jsonb), cast(:wakes as boolean))
