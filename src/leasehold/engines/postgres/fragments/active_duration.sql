-- Whether the row `job`, which has not ended, runs for as long as the traits ask. Null bounds filter nothing.
((:shortest::interval is null and :longest::interval is null)
 or (job.status = 'running'
     and (:shortest is null or (select leasehold.clock()) - job.started_at >= :shortest)
     and (:longest is null or (select leasehold.clock()) - job.started_at <= :longest)))
