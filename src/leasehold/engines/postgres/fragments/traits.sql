-- The traits of the row `job` that both tables hold. A parameter that is null filters nothing.
(:worker::uuid is null or job.worker_id = :worker)
and (:dedupe_key::text is null or job.dedupe_key = :dedupe_key)
and (:lowest_priority::smallint is null or job.priority >= :lowest_priority)
and (:highest_priority::smallint is null or job.priority <= :highest_priority)
and (:payload_path::text[] is null
     or (job.payload #>> :payload_path = :payload_value::text
         and jsonb_typeof(job.payload #> :payload_path) not in ('object', 'array')))
