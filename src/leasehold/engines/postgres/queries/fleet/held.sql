-- What a registration holds, by the database's word: the truth after a reply was lost.
select j.tenant_id, j.id::text, j.attempt, j.worker_id::text, j.claim_batch, j.definition, j.version, j.payload,
       j.max_attempts, j.forgiven, date_part('epoch', j.queued_at) as queued,
       date_part('epoch', j.started_at) as started, j.correlation_id,
       j.cancel_requested_at is not null as cancel_requested,
       coalesce(j.deadline < leasehold.clock(), false) as overdue, j.priority
from leasehold.jobs j
where j.status = 'running' and j.worker_id = :worker
