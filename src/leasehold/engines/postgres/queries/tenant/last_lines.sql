-- The last lines of an attempt, in their order.
select last.number, leasehold.shown(last.at) as at, last.kind, last.text, last.progress
from (
    select number, at, kind, text, progress
    from leasehold.job_lines
    where tenant_id = :tenant and job_id = :job and attempt = :attempt
    order by number desc limit :limit
) last
order by last.number
