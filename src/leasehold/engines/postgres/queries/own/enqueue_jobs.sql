-- Enqueues jobs as tenant/enqueue_jobs.sql does, in a transaction of their tenant.
select number, cast(job_id as text) as job_id, created, replaced, code, happened, fix, about
from leasehold.enqueue_own_jobs(cast(:tenant as text), cast(cast(:jobs as text) as jsonb), cast(:wakes as boolean),
                                false)
