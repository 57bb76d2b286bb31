-- Enqueues jobs, all or none, and wakes who can run them if asked to; or says in one row why it did not.
-- Their payloads were validated by the app, so the database does not check them once more.
select number, cast(job_id as text) as job_id, created, replaced, code, happened, fix, about
from leasehold.enqueue_jobs(cast(:tenant as text), cast(cast(:jobs as text) as jsonb), cast(:wakes as boolean),
                            false)
