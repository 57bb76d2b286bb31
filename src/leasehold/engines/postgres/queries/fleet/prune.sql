-- Deletes ended jobs whose retention is over, with their attempts, once their lines are gone. Returns how many jobs.
with old as materialized (
    select d.tenant_id, d.id, d.definition, d.attempt, d.worker_id, d.started_at, d.finished_at,
           sha256('\x00'::bytea || convert_to('id:' || d.id::text, 'UTF8')) as id_hash
    from leasehold.jobs_done d
    where d.prune_after <= (select leasehold.clock())
    order by d.prune_after limit :limit
    for update skip locked
),
-- A job with lines waits for prune_lines.sql, which deletes a bounded number of them at a time.
without_lines as materialized (
    select old.* from old
    -- A join instead of NOT EXISTS: a plan made while job_lines was empty would then read all of it.
    left join lateral (
        select l.number from leasehold.job_lines l
        where l.tenant_id = old.tenant_id and l.job_id = old.id
        order by l.attempt, l.number limit 1
    ) line on true
    where line.number is null
),
-- Ranges instead of plain equality: see finish.sql.
jobs as (
    delete from leasehold.jobs_done d using without_lines old
    where d.tenant_id = any (array[old.tenant_id]) and d.id between old.id and old.id
    returning d.id
),
attempts as (
    delete from leasehold.job_attempts a using without_lines old
    where a.tenant_id = any (array[old.tenant_id]) and a.job_id between old.id and old.id
    returning a.tenant_id, old.definition, a.started_at, a.finished_at, a.details,
              old.attempt <> a.attempt or old.worker_id is null as is_behind_it
),
named as (
    delete from leasehold.dedupe_holds h using without_lines old
    where h.tenant_id = any (array[old.tenant_id]) and h.dedupe_hash between old.id_hash and old.id_hash
),
-- A job may be pruned before its attempts are added up. Then they are added here, and add_up_usage leaves them out: the
-- lock keeps it away. By the usual retention no job is so young, and nothing is locked.
progress as materialized (
    select p.usage_until from leasehold.series_progress p
    where exists (select from without_lines old cross join leasehold.series_progress s
                  where old.finished_at >= s.usage_until)
    for share of p
),
used as (
    select old.tenant_id, old.definition, old.finished_at, 1 as attempts,
           old.finished_at - old.started_at as run_time, null::interval as cpu_time
    from without_lines old cross join progress p
    where old.worker_id is not null and old.finished_at >= p.usage_until
    union all
    select a.tenant_id, a.definition, a.finished_at, a.is_behind_it::integer,
           case when a.is_behind_it then a.finished_at - a.started_at end, leasehold.cpu_time(a.details)
    from attempts a cross join progress p
    where a.finished_at >= p.usage_until
),
added as (
    select leasehold.add_usage(array_agg(hours.used))
    from (
        select (u.tenant_id, leasehold.hour_of(u.finished_at), u.definition, sum(u.attempts),
                coalesce(sum(u.run_time), interval '0'), coalesce(sum(u.cpu_time), interval '0'),
                count(u.cpu_time))::leasehold.usage_hours as used
        from used u group by u.tenant_id, leasehold.hour_of(u.finished_at), u.definition
    ) hours
)
select (select count(*) from jobs) as count from added
