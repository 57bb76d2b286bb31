-- Reads jobs from either table by one statement, since a job could move from one to the other between two.
select job.*
from unnest(:jobs::uuid[]) as wanted (id)
cross join lateral (select * from leasehold.job_records where tenant_id = :tenant and id = wanted.id limit 1) job
