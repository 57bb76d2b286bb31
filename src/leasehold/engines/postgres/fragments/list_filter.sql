-- The part of a listing's filter that is the same for jobs in every state. A parameter that is null filters nothing.
(find_job_ids.definitions is null or job.definition = any (find_job_ids.definitions))
and (find_job_ids.source is null or job.source = find_job_ids.source)
and (find_job_ids.correlation_id is null or job.correlation_id = find_job_ids.correlation_id)
and (find_job_ids.tried is null or find_job_ids.tried = (job.attempt > 0))
and (find_job_ids.created_after is null or job.queued_at >= find_job_ids.created_after)
and (find_job_ids.created_before is null or job.queued_at < find_job_ids.created_before)
