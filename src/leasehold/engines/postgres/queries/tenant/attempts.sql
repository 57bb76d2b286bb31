-- Lists a job's attempts: those on record, the running one, and the succeeded one, which is read off the job. A start
-- that was set to null by hand is shown as the moment next to it.
with attempt as (
    select a.attempt, a.status, a.worker_id, leasehold.shown(a.started_at) as started_at,
           leasehold.shown(a.finished_at) as finished_at, a.error, a.error_code, a.exit_code, a.details
    from leasehold.job_attempts a
    where a.tenant_id = :tenant and a.job_id = :job
    union all
    select j.attempt, 'running', j.worker_id, leasehold.shown(coalesce(j.started_at, j.queued_at)), null, null, null,
           null, '{}'
    from leasehold.jobs j
    where j.tenant_id = :tenant and j.id = :job and j.worker_id is not null
    union all
    select d.attempt, 'succeeded', d.worker_id, leasehold.shown(coalesce(d.started_at, d.finished_at)),
           leasehold.shown(d.finished_at), null, null, null, '{}'
    from leasehold.jobs_done d
    where d.tenant_id = :tenant and d.id = :job and d.status = 'succeeded'
      and not exists (
          select from leasehold.job_attempts a
          where a.tenant_id = :tenant and a.job_id = :job and a.attempt = d.attempt)
)
select attempt.*, named.host, named.pid
from attempt
-- A lateral join with a limit: with a plain one, a plan made while worker_names was small would read all of it.
left join lateral (
    select n.host, n.pid from leasehold.worker_names n where n.id = attempt.worker_id limit 1
) named on true
order by attempt.attempt
