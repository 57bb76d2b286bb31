-- Whether the row `job`, which has ended, took as long as the traits ask. Null bounds filter nothing.
((:shortest::interval is null or job.finished_at - job.started_at >= :shortest)
 and (:longest::interval is null or job.finished_at - job.started_at <= :longest))
