-- The newest tries within `span` that did not succeed, at most :limit.
select a.tenant_id, a.job_id, a.attempt, a.status, a.finished_at
from span cross join lateral (
    select a.tenant_id, a.job_id, a.attempt, a.status, a.finished_at from leasehold.job_attempts a
    where a.finished_at >= span.begin order by a.finished_at desc limit :limit
) a
