-- Lists the log lines of an attempt after a line.
select number, leasehold.shown(at) as at, kind, text, progress
from leasehold.job_lines
where tenant_id = :tenant and job_id = :job and attempt = :attempt and number > :after
order by number limit :limit
