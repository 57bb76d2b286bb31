-- The part of an operation's filter that is the same for jobs in every state, of the row j.
(:definitions::text[] is null or j.definition = any (:definitions::text[]))
and (:source::text is null or j.source = :source)
and (:correlation_id::text is null or j.correlation_id = :correlation_id)
and (:tried::boolean is null or :tried = (j.attempt > 0))
and (:created_after::timestamptz is null or j.queued_at >= :created_after)
and (:created_before::timestamptz is null or j.queued_at < :created_before)
