-- Series for charts: figures of each minute and each hour, by tenant and definition.
--
-- One worker at a time, once a minute, adds up what the minutes that have ended since left in the tables: see roll_up.
-- No enqueue, claim or finish does anything for it. A worker that is killed loses no figure.
--
-- A row has its figures as one object: counts under their names; histograms as `wait:7`, the number of jobs in bucket
-- 7; samples as `depth:ready`. An empty tenant or definition stands for all of them, so that a total is never added up
-- from the rows of a thousand tenants when it is read.
--
-- The release before does not know these tables. While its workers alone run, the series has a gap.
-- needs: 0001

create table leasehold.series_minutes (
    tenant_id   text collate "C" not null,
    definition  text collate "C" not null,
    at          timestamptz not null,
    figures     jsonb not null,
    primary key (tenant_id, definition, at)
);

create index series_minutes_at on leasehold.series_minutes (at);

create table leasehold.series_hours (
    tenant_id   text collate "C" not null,
    definition  text collate "C" not null,
    at          timestamptz not null,
    figures     jsonb not null,
    primary key (tenant_id, definition, at)
);

create index series_hours_at on leasehold.series_hours (at);

-- Up to when minutes and hours are added up.
create table leasehold.series_progress (
    only_row  boolean primary key default true check (only_row),
    minutes   timestamptz not null,
    hours     timestamptz not null
);
insert into leasehold.series_progress (minutes, hours)
select date_trunc('minute', now, 'UTC'), date_trunc('hour', now, 'UTC') from leasehold.clock() as now;

alter table leasehold.settings
    add column minute_history interval not null default interval '48 hours'
        check (minute_history between interval '2 hours' and interval '3650 days'),
    add column hour_history interval not null default interval '400 days'
        check (hour_history between interval '0' and interval '3650 days');

-- Ended jobs are found by the index of their retention, jobs that are kept for ever by this one: an index of all by their
-- end would cost each finish (figures in docs/decisions/0045).
create index jobs_done_kept on leasehold.jobs_done (finished_at) where prune_after is null;
-- Only attempts that did not succeed are here.
create index job_attempts_finished on leasehold.job_attempts (finished_at);

-- The upper bounds of the buckets of a histogram, in seconds: from 1 ms to 4.7 hours, each twice the one before. The same
-- as in leasehold.model.series.
create function leasehold.series_bounds() returns float8[] language sql immutable parallel safe as $$
    select '{0.001,0.002,0.004,0.008,0.016,0.032,0.064,0.128,0.256,0.512,1.024,2.048,4.096,8.192,16.384,32.768,65.536,
             131.072,262.144,524.288,1048.576,2097.152,4194.304,8388.608,16777.216}'::float8[]
$$;

-- Returns the beginning of the minute of a moment; date_trunc would ask for the session's time zone.
create function leasehold.minute_of(moment timestamptz) returns timestamptz language sql immutable parallel safe as $$
    select date_bin(interval '1 minute', moment, timestamptz '2000-01-01 00:00:00+00')
$$;

-- Returns the least id of a moment: ids are time-ordered (uuid7) unless the caller supplied one.
create function leasehold.least_id(moment timestamptz) returns uuid language sql stable parallel safe as $$
    select (lpad(to_hex((extract(epoch from moment) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
$$;

-- Returns, one row for each, how long ended jobs are kept, in all versions of definitions.
create function leasehold.retention_lengths() returns setof interval language sql stable as $$
    select distinct split_part(kept.value, ' ', 1)::numeric * interval '1 second'
    from leasehold.definition_versions v cross join jsonb_each_text(v.retention) kept
    where kept.value ~ '^[0-9]{1,10}(\.[0-9]{1,6})? seconds$'
$$;

-- Returns the figures of the minutes from `since` on until `till`, one row for each: a job counts as enqueued in the
-- minute of its queued_at, an attempt as started in that of its start, and as ended in that of its end.
--
-- A job is in one of two tables. This is one statement, so that none is missed or counted twice. A job that began
-- in these minutes and has ended since is among those that ended from `since` on.
create function leasehold.figures_of_minutes(since timestamptz, till timestamptz, now timestamptz)
returns table (at timestamptz, tenant_id text, definition text, figure text, n numeric)
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_sort = on set jit = off set plan_cache_mode = force_custom_plan as $$
#variable_conflict use_column
begin
    return query
    -- Jobs that ended, in groups that are alike in all that is counted: few, while jobs are many. A job that was canceled
    -- while it waited for a retry has no worker, and its start is that of an attempt before.
    with recursive ends as materialized (
        select leasehold.minute_of(e.finished_at) as at, leasehold.minute_of(e.queued_at) as queued_at,
               leasehold.minute_of(e.started_at) as started_at, e.tenant_id, e.definition, e.status,
               width_bucket(date_part('epoch', e.started_at - greatest(e.scheduled_for, e.queued_at)),
                            leasehold.series_bounds()) as wait,
               width_bucket(date_part('epoch', e.finished_at - e.started_at), leasehold.series_bounds()) as run,
               count(*) as n,
               sum(date_part('epoch', e.finished_at - e.started_at)) as busy
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
            union all
            select d.tenant_id, d.definition, d.status, d.queued_at, d.scheduled_for, d.finished_at,
                   case when d.worker_id is not null then d.started_at end
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

-- Counts the unfinished jobs now, by tenant and definition: at most 10,000 ready ones of each, and at most 10,000 future
-- ones of a definition, those that are due first.
create function leasehold.depths()
returns table (tenant_id text, definition text, figure text, n bigint)
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_sort = on set jit = off set plan_cache_mode = force_custom_plan as $$
#variable_conflict use_column
begin
    return query
    with recursive lanes as (
        select f.key, (select j.tenant_id from leasehold.jobs j where j.ready and j.definition = f.key
                       order by j.tenant_id limit 1) as tenant
        from leasehold.definitions f
        union all
        select l.key, (select j.tenant_id from leasehold.jobs j
                       where j.ready and j.definition = l.key and j.tenant_id > l.tenant
                       order by j.tenant_id limit 1)
        from lanes l where l.tenant is not null
    )
    select l.tenant::text, l.key::text, 'depth:ready',
           (select count(*) from (
               select from leasehold.jobs j where j.ready and j.definition = l.key and j.tenant_id = l.tenant
               limit 10000) first)
    from lanes l where l.tenant is not null
    union all
    select r.tenant_id::text, r.definition::text, 'depth:running', count(*)
    from leasehold.definitions f
    cross join lateral (
        select j.tenant_id, j.definition from leasehold.jobs j where j.status = 'running' and j.definition = f.key
        order by j.tenant_id, j.started_at
    ) r
    group by 1, 2
    union all
    select w.tenant_id::text, w.definition::text,
           case when w.attempt > 0 then 'depth:retrying' else 'depth:scheduled' end, count(*)
    from leasehold.definitions f
    cross join lateral (
        select j.tenant_id, j.definition, j.attempt from leasehold.jobs j
        where j.status = 'queued' and not j.ready and j.definition = f.key
        order by j.scheduled_for limit 10000
    ) w
    group by 1, 2, 3;
end $$;

-- Adds up the minutes that have ended, and the hours. Returns up to when; null if another session does it, or none has
-- ended. A minute is added up five seconds after its end, since a finish has its time before it is committed.
--
-- After an interruption it goes on by an hour at a time, and leaves out what is older than minutes are kept.
create function leasehold.roll_up() returns timestamptz language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = on set jit = off
set timezone = 'UTC' set plan_cache_mode = force_custom_plan as $$
declare
    now constant timestamptz := leasehold.clock();
    ended constant timestamptz := date_trunc('minute', now - interval '5 seconds');
    since timestamptz;
    till timestamptz;
    hour timestamptz;
begin
    select p.minutes, p.hours into since, hour
    from leasehold.series_progress p where p.minutes < ended for update skip locked;
    if not found then
        return null;
    end if;
    since := greatest(since, ended - (select s.minute_history from leasehold.settings s));
    till := least(ended, since + interval '1 hour');
    insert into leasehold.series_minutes (tenant_id, definition, at, figures)
    select total.tenant_id, total.definition, total.at, jsonb_object_agg(total.figure, total.n)
    from (
        select coalesce(f.tenant_id, '') as tenant_id, coalesce(f.definition, '') as definition, f.at, f.figure,
               sum(f.n) as n
        from leasehold.figures_of_minutes(since, till, now) f
        group by grouping sets ((f.at, f.figure, f.tenant_id, f.definition), (f.at, f.figure, f.tenant_id),
                                (f.at, f.figure, f.definition), (f.at, f.figure))
    ) total
    group by 1, 2, 3
    on conflict do nothing;
    while hour + interval '1 hour' <= till loop
        insert into leasehold.series_hours (tenant_id, definition, at, figures)
        select total.tenant_id, total.definition, hour, jsonb_object_agg(total.key, total.n)
        from (
            select m.tenant_id, m.definition, f.key,
                   case when starts_with(f.key, 'depth:') then max(f.value::numeric) else sum(f.value::numeric) end as n
            from leasehold.series_minutes m cross join jsonb_each_text(m.figures) f
            where m.at >= hour and m.at < hour + interval '1 hour'
            group by 1, 2, 3
        ) total
        group by 1, 2
        on conflict do nothing;
        hour := hour + interval '1 hour';
    end loop;
    update leasehold.series_progress set minutes = till, hours = hour;
    return till;
end $$;
