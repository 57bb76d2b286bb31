-- Usage: attempts, run time and processor time by tenant, definition and hour, kept longer than the jobs.
--
-- The attempts themselves are the source. About once a minute a worker adds to the hours those that have ended since,
-- and says up to when; a reader adds the rest from the attempts by the same statement. So usage equals the attempts at
-- every moment. No enqueue, claim or finish does anything for it. It begins with this migration.
--
-- An attempt counts in the hour of its end. A finish has its time before it is committed, a handler's transaction even
-- seconds before. So what ended before a noted moment is added up only when all transactions are over that had begun to
-- write by then: none of them can still bring an attempt of that time (docs/decisions/0070).
--
-- The release before does not know these things. A job that its workers prune within minutes of its end is not counted.
-- needs: 0001

create table leasehold.usage_hours (
    tenant_id     text collate "C" not null,
    at            timestamptz not null,
    definition    text collate "C" not null,
    attempts      bigint not null,
    run_time      interval not null,
    cpu_time      interval not null,                    -- of the attempts in cpu_attempts
    cpu_attempts  bigint not null,                      -- attempts whose processor time is known
    primary key (tenant_id, at, definition)
) with (fillfactor = 70);

create index usage_hours_at on leasehold.usage_hours (at);

alter table leasehold.settings
    add column usage_history interval not null default interval '400 days'
        check (usage_history between interval '0' and interval '36500 days');

-- Up to when usage is added up; and a moment, with the number of the transaction that noted it.
alter table leasehold.series_progress
    add column usage_until timestamptz,
    add column noted_at timestamptz,
    add column noted_by xid8;
update leasehold.series_progress p
set usage_until = now, noted_at = now, noted_by = pg_current_xact_id() from leasehold.clock() as now;
alter table leasehold.series_progress
    alter column usage_until set not null,
    alter column noted_at set not null,
    alter column noted_by set not null;

-- Returns the beginning of the hour of a moment.
create function leasehold.hour_of(moment timestamptz) returns timestamptz language sql immutable parallel safe as $$
    select date_bin(interval '1 hour', moment, timestamptz '2000-01-01 00:00:00+00')
$$;

-- Returns the processor time that an attempt's details tell; null if they don't. A worker may write any number there.
create function leasehold.cpu_time(details jsonb) returns interval language sql immutable parallel safe as $$
    select case when jsonb_typeof(details -> 'cpu_seconds') = 'number'
                then case when (details ->> 'cpu_seconds')::numeric between 0 and 1000000000
                          then (details ->> 'cpu_seconds')::float8 * interval '1 second' end end
$$;

-- Returns the usage of the attempts that ended from `since` on and before `till`: of one tenant, or of all for null.
--
-- The last attempt of an ended job is read off the job, as in figures_of_minutes; of its own row, if it has one, just
-- the processor time counts. This is one statement, so that no attempt is missed or counted twice.
create function leasehold.usage_between(since timestamptz, till timestamptz, of_tenant text default null)
returns table (
    tenant_id text, definition text, at timestamptz, attempts bigint, run_time interval, cpu_time interval,
    cpu_attempts bigint
) language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_sort = off set jit = off set plan_cache_mode = force_custom_plan as $$
#variable_conflict use_column
begin
    return query
    with ended as (
        select d.tenant_id, d.definition, leasehold.hour_of(d.finished_at) as at, count(*) as attempts,
               sum(d.finished_at - d.started_at) as run_time
        from leasehold.retention_lengths() as l (length)
        -- The order makes the planner take the index of the retention, also for one tenant.
        cross join lateral (
            select d.* from leasehold.jobs_done d
            where d.prune_after >= usage_between.since + l.length and d.prune_after < usage_between.till + l.length
              and (usage_between.of_tenant is null or d.tenant_id = usage_between.of_tenant)
            order by d.prune_after
        ) d
        where d.prune_after = d.finished_at + l.length and d.worker_id is not null
        group by 1, 2, 3
        union all
        select d.tenant_id, d.definition, leasehold.hour_of(d.finished_at), count(*), sum(d.finished_at - d.started_at)
        from (
            select d.* from leasehold.jobs_done d
            where d.prune_after is null
              and d.finished_at >= usage_between.since and d.finished_at < usage_between.till
              and (usage_between.of_tenant is null or d.tenant_id = usage_between.of_tenant)
            order by d.finished_at
        ) d
        where d.worker_id is not null
        group by 1, 2, 3
    ),
    noted as (
        select a.tenant_id, job.definition, leasehold.hour_of(a.finished_at) as at,
               count(*) filter (where job.is_behind_it) as attempts,
               sum(a.finished_at - a.started_at) filter (where job.is_behind_it) as run_time,
               sum(leasehold.cpu_time(a.details)) as cpu_time, count(leasehold.cpu_time(a.details)) as cpu_attempts
        from (
            select a.* from leasehold.job_attempts a
            where a.finished_at >= usage_between.since and a.finished_at < usage_between.till
              and (usage_between.of_tenant is null or a.tenant_id = usage_between.of_tenant)
            order by a.finished_at
        ) a
        cross join lateral (
            select j.definition, true as is_behind_it from leasehold.jobs j
            where j.tenant_id = a.tenant_id and j.id = a.job_id
            union all
            select d.definition, d.attempt <> a.attempt or d.worker_id is null from leasehold.jobs_done d
            where d.tenant_id = a.tenant_id and d.id = a.job_id
            limit 1
        ) job
        group by 1, 2, 3
    )
    select u.tenant_id::text, u.definition::text, u.at, sum(u.attempts)::bigint,
           coalesce(sum(u.run_time), interval '0'), coalesce(sum(u.cpu_time), interval '0'),
           sum(u.cpu_attempts)::bigint
    from (
        select e.*, null::interval as cpu_time, 0::bigint as cpu_attempts from ended e
        union all
        select n.* from noted n
    ) u
    group by 1, 2, 3;
end $$;

-- Adds usage to its hours. Returns how many rows it had.
create function leasehold.add_usage(used leasehold.usage_hours[]) returns bigint language plpgsql volatile
set plan_cache_mode = force_custom_plan as $$
begin
    -- In the order of the key: two sessions that prune at once wait for each other, and don't deadlock.
    insert into leasehold.usage_hours as kept
    select u.* from unnest(used) u order by u.tenant_id, u.at, u.definition
    on conflict (tenant_id, at, definition) do update set
        attempts = kept.attempts + excluded.attempts, run_time = kept.run_time + excluded.run_time,
        cpu_time = kept.cpu_time + excluded.cpu_time, cpu_attempts = kept.cpu_attempts + excluded.cpu_attempts;
    return coalesce(cardinality(used), 0);
end $$;

-- Adds up the attempts that have ended since the last time. Returns whether there is more to do at once.
--
-- One session does it, at most every 30 seconds. After an interruption it goes on by an hour at a time. A note by a
-- transaction that this server has not had yet came with a copy of another server's tables: nothing of it is under way.
create function leasehold.add_up_usage() returns boolean language plpgsql volatile as $$
declare
    now constant timestamptz := leasehold.clock();
    progress leasehold.series_progress;
    ended timestamptz;
    till timestamptz;
begin
    select * into progress from leasehold.series_progress p
    where p.noted_at < now - interval '30 seconds' for update skip locked;
    if not found or (pg_snapshot_xmin(pg_current_snapshot()) < progress.noted_by
                     and progress.noted_by < pg_current_xact_id()) then
        return false;
    end if;
    -- From its time to its first write a finish has five seconds.
    ended := greatest(progress.noted_at - interval '5 seconds', progress.usage_until);
    till := least(ended, progress.usage_until + interval '1 hour');
    perform leasehold.add_usage(array(
        select (u.tenant_id, u.at, u.definition, u.attempts, u.run_time, u.cpu_time,
                u.cpu_attempts)::leasehold.usage_hours
        from leasehold.usage_between(progress.usage_until, till) u));
    if till < ended then
        update leasehold.series_progress set usage_until = till;
        return true;
    end if;
    update leasehold.series_progress set usage_until = till, noted_at = now, noted_by = pg_current_xact_id();
    return false;
end $$;
