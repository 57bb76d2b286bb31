-- Columns of a claim, from a row `j` of jobs and the time in `moment`. Text and seconds instead of a uuid and moments:
-- no other column costs the client as much.
j.tenant_id, j.id::text, j.attempt, j.claim_batch, j.definition, j.version, j.payload, j.max_attempts, j.forgiven,
date_part('epoch', j.queued_at) as queued, date_part('epoch', j.started_at) as started, j.correlation_id,
j.cancel_requested_at is not null as cancel_requested,
coalesce(j.deadline < (select now from moment), false) as overdue, j.priority, j.trace_context
