-- Writes an event as events/write.sql does, in a transaction of its tenant.
select cast(emitted_at as text) as emitted_at, triggers, answer
from leasehold.write_own_event(cast(:tenant as text), cast(:id as uuid), cast(:name as text),
                               cast(cast(:data as text) as jsonb), cast(:correlation_id as text),
                               cast(:created_by as text))
