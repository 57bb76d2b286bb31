-- Enqueues jobs, all or none, and wakes workers if asked to; or tells in one row why it refused. The app has validated
-- the payloads, so the database does not check them again.
select number, cast(job_id as text) as job_id, created, replaced, code, happened, fix, about
from leasehold.enqueue_jobs(cast(:tenant as text), cast(cast(:jobs as text) as jsonb), cast(:wakes as boolean),
                            false)
