-- What a seat holds, by the database's word: the truth after a reply was lost.
select j.tenant_id, j.id, j.attempt, j.worker_id, j.definition, j.version, j.payload, j.max_attempts, j.forgiven,
       j.queued_at, j.started_at, j.correlation_id, j.cancel_requested_at is not null as cancel_requested,
       coalesce(j.deadline < leasehold.clock(), false) as overdue
from leasehold.jobs j
where j.status = 'running' and j.worker_id = :worker
