-- The part of a look's filter that is the same for jobs in every state. A parameter that is null filters nothing.
(:definitions::text[] is null or job.definition = any (:definitions))
and (:source::text is null or job.source = :source)
and (:correlation_id::text is null or job.correlation_id = :correlation_id)
and (:tried::boolean is null or :tried = (job.attempt > 0))
and (:created_after::timestamptz is null or job.queued_at >= :created_after)
and (:created_before::timestamptz is null or job.queued_at < :created_before)
and include(traits)
