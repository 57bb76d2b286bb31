-- Returns the last lines of a job's attempts from :since on, in their order; with :kind, only those of that kind.
select last.attempt, last.number, leasehold.shown(last.at) as at, last.kind, last.text, last.progress
from (
    select attempt, number, at, kind, text, progress
    from leasehold.job_lines
    where tenant_id = :tenant and job_id = :job and attempt >= :since
      and (:kind::text is null or kind = :kind::text)
    order by attempt desc, number desc limit :limit
) last
order by last.attempt, last.number
