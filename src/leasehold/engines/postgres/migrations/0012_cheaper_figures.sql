-- Figures are added up at half the cost.
--
-- needs: 0001

-- As before, but the jobs of a minute are grouped by hashes, and those that are kept for ever apart from the others. To
-- sort them took half of a roll-up (docs/decisions/0050).
create or replace function leasehold.figures_of_minutes(since timestamptz, till timestamptz, now timestamptz)
returns table (at timestamptz, tenant_id text, definition text, figure text, n numeric)
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_sort = off set jit = off set plan_cache_mode = force_custom_plan as $$
#variable_conflict use_column
begin
    return query
    -- Jobs that ended, in groups that are alike in all that is counted: few, while jobs are many. A job that was canceled
    -- while it waited for a retry has no worker, and its start is that of an attempt before.
    with recursive ends as materialized (
        select include(job_figures)
        from (
            -- By prune_after, which is finished_at and the retention: the index that pruning has. A row is found for its
            -- own retention alone.
            select d.tenant_id, d.definition, d.status, d.queued_at, d.scheduled_for, d.finished_at,
                   case when d.worker_id is not null then d.started_at end as started_at
            from leasehold.retention_lengths() as l (length)
            cross join lateral (
                select d.* from leasehold.jobs_done d
                where d.prune_after >= figures_of_minutes.since + l.length
                  and d.prune_after <= figures_of_minutes.now + l.length
                order by d.prune_after
            ) d
            where d.prune_after = d.finished_at + l.length
        ) e
        group by 1, 2, 3, 4, 5, 6, 7, 8
        union all
        select include(job_figures)
        from (
            select d.tenant_id, d.definition, d.status, d.queued_at, d.scheduled_for, d.finished_at,
                   case when d.worker_id is not null then d.started_at end as started_at
            from leasehold.jobs_done d
            where d.prune_after is null and d.finished_at >= figures_of_minutes.since
        ) e
        group by 1, 2, 3, 4, 5, 6, 7, 8
    ),
    -- Attempts that did not succeed, with their job: a job that was pruned since is left out.
    tries as materialized (
        select a.tenant_id, job.definition, a.status, a.started_at, a.finished_at,
               job.attempt is distinct from a.attempt or not job.ended_by_it as is_followed
        from leasehold.job_attempts a
        cross join lateral (
            select j.definition, j.attempt, false as ended_by_it from leasehold.jobs j
            where j.tenant_id = a.tenant_id and j.id = a.job_id
            union all
            select d.definition, d.attempt, d.worker_id is not null from leasehold.jobs_done d
            where d.tenant_id = a.tenant_id and d.id = a.job_id
            limit 1
        ) job
        where a.finished_at >= figures_of_minutes.since
    ),
    running as materialized (
        select job.tenant_id, job.definition, job.started_at, job.queued_at
        from leasehold.definitions f
        cross join lateral (
            select j.tenant_id, j.definition, j.started_at, j.queued_at from leasehold.jobs j
            where j.status = 'running' and j.definition = f.key
            order by j.tenant_id, j.started_at
        ) job
    ),
    tenants as (
        (select j.tenant_id from leasehold.jobs j order by j.tenant_id limit 1)
        union all
        select (select j.tenant_id from leasehold.jobs j where j.tenant_id > t.tenant_id order by j.tenant_id limit 1)
        from tenants t where t.tenant_id is not null
    ),
    -- A producer's clock may be a minute off the database's.
    unfinished as materialized (
        select t.tenant_id, job.definition, job.queued_at
        from tenants t
        cross join lateral (
            select j.definition, j.queued_at from leasehold.jobs j
            where j.tenant_id = t.tenant_id
              and j.id >= leasehold.least_id(figures_of_minutes.since - interval '1 minute')
              and j.id < leasehold.least_id(figures_of_minutes.till + interval '1 minute')
        ) job
        where t.tenant_id is not null
    ),
    counted as (
        select q.at, q.tenant_id, q.definition, 'enqueued' as figure, sum(q.n) as n
        from (
            select e.queued_at as at, e.tenant_id, e.definition, e.n from ends e
            union all
            select leasehold.minute_of(u.queued_at), u.tenant_id, u.definition, count(*) from unfinished u
            group by 1, 2, 3
        ) q
        where q.at >= figures_of_minutes.since and q.at < figures_of_minutes.till
        group by 1, 2, 3
        union all
        select s.at, s.tenant_id, s.definition, 'started', sum(s.n)
        from (
            select e.started_at as at, e.tenant_id, e.definition, e.n from ends e
            union all
            select leasehold.minute_of(t.started_at), t.tenant_id, t.definition, 1 from tries t where t.is_followed
            union all
            select leasehold.minute_of(r.started_at), r.tenant_id, r.definition, 1 from running r
        ) s
        where s.at >= figures_of_minutes.since and s.at < figures_of_minutes.till
        group by 1, 2, 3
        union all
        select e.at, e.tenant_id, e.definition, e.status, sum(e.n) from ends e
        where e.at < figures_of_minutes.till group by 1, 2, 3, 4
        union all
        select e.at, e.tenant_id, e.definition, 'wait:' || e.wait, sum(e.n) from ends e
        where e.wait is not null and e.at < figures_of_minutes.till group by 1, 2, 3, e.wait
        union all
        select r.at, r.tenant_id, r.definition, 'run:' || r.run, sum(r.n)
        from (
            select e.at, e.tenant_id, e.definition, e.run, e.n from ends e
            where e.run is not null and e.at < figures_of_minutes.till
            union all
            select leasehold.minute_of(t.finished_at), t.tenant_id, t.definition,
                   width_bucket(date_part('epoch', t.finished_at - t.started_at), leasehold.series_bounds()), 1
            from tries t where t.is_followed and t.finished_at < figures_of_minutes.till
        ) r
        group by 1, 2, 3, r.run
        union all
        select b.at, b.tenant_id, b.definition, 'busy_ms', round(sum(b.busy)::numeric * 1000)
        from (
            select e.at, e.tenant_id, e.definition, e.busy from ends e
            where e.busy is not null and e.at < figures_of_minutes.till
            union all
            select leasehold.minute_of(t.finished_at), t.tenant_id, t.definition,
                   date_part('epoch', t.finished_at - t.started_at)
            from tries t where t.is_followed and t.finished_at < figures_of_minutes.till
        ) b
        group by 1, 2, 3
        union all
        select leasehold.minute_of(t.finished_at), t.tenant_id, t.definition, 'failed_attempts', count(*)
        from tries t
        where t.finished_at < figures_of_minutes.till and t.status in ('failed', 'timeout', 'crashed')
        group by 1, 2, 3
        union all
        select leasehold.minute_of(t.finished_at), t.tenant_id, t.definition, 'retried', count(*)
        from tries t
        where t.finished_at < figures_of_minutes.till and t.status in ('failed', 'timeout', 'crashed')
          and t.is_followed
        group by 1, 2, 3
    )
    select c.at, c.tenant_id::text, c.definition::text, c.figure, c.n from counted c
    union all
    select figures_of_minutes.till - interval '1 minute', s.tenant_id, s.definition, s.figure, s.n::numeric
    from leasehold.depths() s;
end $$;
