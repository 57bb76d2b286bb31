-- One job, wherever it is; in one statement, since between two it could move from the one table to the other.
select job.*
from unnest(:jobs::uuid[]) as wanted (id)
cross join lateral (select * from leasehold.job_records where tenant_id = :tenant and id = wanted.id limit 1) job
