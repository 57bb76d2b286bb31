-- The whole schema: tables, views and functions of the engine.
--
-- A job lives in `jobs` while it is unfinished and in `jobs_done` afterwards. The hot table stays small, its vacuum
-- cheap, and "active" dedupe is active by construction (29.2k against 22.5k jobs/s for one table; with 5M finished,
-- claim p99 10.7 against 49 ms). Finishing is one statement that deletes here and inserts there.
--
-- A ready job is found through its lane (definition, tenant): a worker that serves one definition never walks over
-- another's backlog, and tenants take turns. A job that is not yet due stays out of its lane (`ready` false), and the
-- next claim promotes it; outside of the engine both are `queued`.
--
-- The fence of an attempt is (tenant_id, id, attempt, worker_id, claim_batch). `worker_id` is unique per boot and set
-- exactly while the job runs, so the fence needs no condition on status. `attempt` only goes up while the row lives, but
-- it can repeat: a crash may undo a claim that was committed asynchronously, and a brought id begins at 1 again after its
-- job was pruned. Under one worker both gave equal fences, so `claim_batch` numbers the worker's claim statements: the
-- worker's process counts them, and the count survives any crash of the database (docs/decisions/0015). A job's lease is
-- the lease of its worker's row: one heartbeat renews all.
--
-- Tenant comes first in every key: no tenant can find out, by a conflict, which ids or keys another one uses.
-- There are no foreign keys on the hot table: two cost a third of the enqueue rate; enqueue validates instead.
--
-- Names that order an index compare by bytes (collate "C"): the same order everywhere, which no upgrade of a C library
-- can change under an index.
--
-- Functions of the hot path are in PL/pgSQL unless the planner puts them in place: before PostgreSQL 18 a function in SQL
-- that it can't put in place (it has a subquery, or is called immutable and holds something stable) is planned at each
-- call, for 0.1 to 0.2 ms. A statement in PL/pgSQL is planned once in a session (docs/decisions/0022).
--
-- This file calls the schema leasehold; its real name is put in when the file is loaded, as are the fragments that it
-- includes.

-- The only clock. Tests replace this function to move time.
create function leasehold.clock() returns timestamptz language sql volatile parallel safe
    as $$ select clock_timestamp() $$;

-- Makes the commit of this transaction durable, even if the database or a caller has synchronous_commit off. Every
-- statement whose success is a promise calls it. Stronger settings stay.
create function leasehold.force_sync_commit() returns text language sql volatile as $$
    select case current_setting('synchronous_commit') when 'off' then set_config('synchronous_commit', 'on', true) end
$$;

-- --------------------------------------------------------------------------------------------------------- bounds

-- The bounds of model/bounds.py. Every client can read a moment within them, and subtract from it: Python's calendar
-- ends with the year 9999, and until PostgreSQL 16 nothing can be subtracted from infinity.
create function leasehold.earliest() returns timestamptz language sql immutable parallel safe
    as $$ select timestamptz '1900-01-01 00:00:00+00' $$;

create function leasehold.latest() returns timestamptz language sql immutable parallel safe
    as $$ select timestamptz '9999-01-01 00:00:00+00' $$;

-- Returns the moment that is shown for a stored one, since people may write any value into a table. For a moment beyond
-- the bounds it is the nearest one outside of them, so that a reader can tell. That one is a constant, since a
-- difference is stable: the planner would inline the function nowhere, and plan it five times for each claim.
create function leasehold.shown(moment timestamptz) returns timestamptz language sql immutable parallel safe as $$
    select case when moment >= leasehold.latest() then leasehold.latest()
                when moment < leasehold.earliest() then timestamptz '1899-12-31 23:59:59+00'
                else moment end
$$;

-- Returns the length that is read for a stored one, so that every client can hold it: Python can't hold '-3000000
-- years', or the '-infinity' of PostgreSQL 17.
create function leasehold.bounded(length interval) returns interval language sql immutable parallel safe
    as $$ select greatest(least(length, interval '3650 days'), interval '-3650 days') $$;

-- Returns until when an ended job is kept; null: for ever, also for a retention that this release can't read.
create function leasehold.prune_after(retention jsonb, status text, now timestamptz) returns timestamptz
language sql immutable parallel safe as $$
    select case when retention ->> status ~ '^[0-9]{1,30}(\.[0-9]{1,30})? seconds$'
        then now + least(split_part(retention ->> status, ' ', 1)::numeric, 3153600000) * interval '1 second'
    end
$$;

-- ---------------------------------------------------------------------------------------------- tenants and definitions

create table leasehold.tenants (
    id          text collate "C" primary key check (length(id) between 1 and 100),
    created_at  timestamptz not null
);

-- Settings of the whole schema, in one row.
create table leasehold.settings (
    only_row        boolean primary key default true check (only_row),
    strict_tenants  boolean not null default false       -- refuse to enqueue for a tenant without a row in `tenants`
);
insert into leasehold.settings default values;

create table leasehold.definitions (
    key         text collate "C" primary key check (length(key) between 1 and 100),
    version     integer not null,
    active      boolean not null default true,
    created_at  timestamptz not null,
    updated_at  timestamptz not null
);

-- Rows are immutable: a job pins the version under which it was enqueued.
create table leasehold.definition_versions (
    key             text collate "C" not null references leasehold.definitions,
    version         integer not null,
    description     text not null,
    schema          jsonb,
    timeout         interval not null,
    max_attempts    integer not null check (max_attempts >= 1),
    backoff         jsonb not null,
    priority        smallint not null,
    retention       jsonb not null,
    on_exhausted    text not null check (on_exhausted in ('dead_letter', 'failed')),
    durable_claims  boolean not null default false, -- a claim is on disk before its worker gets it
    created_at      timestamptz not null,
    primary key (key, version)
);

-- Has a row only for a tenant or definition with a limit or a pause.
create table leasehold.limits (
    kind          text not null check (kind in ('tenant', 'definition')),
    key           text collate "C" not null check (length(key) between 1 and 100),
    max_running   integer check (max_running >= 1),
    capped_at     timestamptz,                        -- when max_running was set
    running_from  timestamptz,                        -- no running job of the scope started earlier; null: unknown
    rate_count    integer check (rate_count >= 1),
    rate_period   interval,
    paused_at     timestamptz,
    paused_until  timestamptz check (isfinite(paused_until)),
    pause_reason  text,
    primary key (kind, key),
    check ((rate_count is null) = (rate_period is null)),
    check ((paused_at is null) = (pause_reason is null))
);

create index limits_capped on leasehold.limits (kind, key) where max_running is not null;
create index limits_resuming on leasehold.limits (paused_until) where paused_until is not null;

-- ------------------------------------------------------------------------------------------------------------ jobs

create sequence leasehold.jobs_seq cache 1;

create table leasehold.jobs (
    id                   uuid not null,
    seq                  bigint not null default nextval('leasehold.jobs_seq'),
    scheduled_for        timestamptz not null check (isfinite(scheduled_for)),
    queued_at            timestamptz not null,
    claim_batch          bigint not null default 0,      -- of the latest claim; its worker's process counted it
    started_at           timestamptz,                    -- of the current or latest attempt
    cancel_requested_at  timestamptz,
    deadline             timestamptz,
    worker_id            uuid,
    version              integer not null,
    attempt              integer not null default 0,
    max_attempts         integer not null check (max_attempts >= 1),
    forgiven             integer not null default 0,     -- attempts that cost nothing: snoozes, hand-backs, retries
    priority             smallint not null,
    ready                boolean not null,
    awaited              boolean not null default false, -- somebody waits for its result
    dedupe_held          boolean not null default false, -- its key is kept in dedupe_holds, beyond its own life
    tenant_id            text collate "C" not null,
    definition           text collate "C" not null,
    status               text not null check (status in ('blocked', 'queued', 'running')),
    payload              jsonb not null,
    source               text not null check (source in ('manual', 'event', 'schedule', 'system')),
    source_ref           text,
    correlation_id       text,
    created_by           text,
    dedupe_hash          bytea,
    dedupe_key           text,
    last_error           text,
    last_error_code      text,
    primary key (tenant_id, id),
    constraint running_has_a_worker check ((status = 'running') = (worker_id is not null)),
    constraint ready_is_queued check (not ready or status = 'queued'),
    -- A claim counts the attempt. One job that can't be counted any further would fail each claim, for all tenants.
    constraint next_attempt_can_be_counted check (attempt < 2147483647 or status = 'running')
) with (
    fillfactor = 85,
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.2
);

create index jobs_ready on leasehold.jobs (definition, tenant_id, priority, seq) where ready;
create index jobs_future on leasehold.jobs (definition, scheduled_for) where status = 'queued' and not ready;
create index jobs_running on leasehold.jobs (definition, tenant_id, started_at) where status = 'running';
create index jobs_blocked on leasehold.jobs (tenant_id) where status = 'blocked';
create unique index jobs_active_dedupe on leasehold.jobs (tenant_id, dedupe_hash)
    where dedupe_hash is not null and not dedupe_held;
create index jobs_correlation on leasehold.jobs (tenant_id, correlation_id) where correlation_id is not null;

create table leasehold.jobs_done (
    id                   uuid not null,
    scheduled_for        timestamptz not null,
    queued_at            timestamptz not null,
    started_at           timestamptz,
    finished_at          timestamptz not null,
    cancel_requested_at  timestamptz,
    deadline             timestamptz,
    prune_after          timestamptz,                    -- null: kept for ever
    worker_id            uuid,
    version              integer not null,
    attempt              integer not null,
    max_attempts         integer not null,
    forgiven             integer not null,
    priority             smallint not null,
    dedupe_held          boolean not null,
    tenant_id            text collate "C" not null,
    definition           text collate "C" not null,
    status               text not null check (status in ('succeeded', 'failed', 'canceled', 'dead_letter')),
    payload              jsonb not null,
    result               jsonb,
    source               text not null,
    source_ref           text,
    correlation_id       text,
    created_by           text,
    dedupe_hash          bytea,
    dedupe_key           text,
    last_error           text,
    last_error_code      text,
    primary key (tenant_id, id)
) with (autovacuum_vacuum_insert_scale_factor = 0.05);

create index jobs_done_prune on leasehold.jobs_done (prune_after) where prune_after is not null;
-- Nearly all jobs succeed, and the primary key lists those; only the others pay for an index by status.
create index jobs_done_unusual on leasehold.jobs_done (tenant_id, status, id) where status <> 'succeeded';
create index jobs_done_correlation on leasehold.jobs_done (tenant_id, correlation_id) where correlation_id is not null;

-- Keys that are held beyond their job's life: for a window, or for ever. An id that a caller supplied is held here,
-- too: between the two tables of jobs no unique key could keep it from being used twice. Such a row has a hash of the
-- request under the id, so that another request under it is refused.
create table leasehold.dedupe_holds (
    tenant_id     text collate "C" not null,
    dedupe_hash   bytea not null,
    job_id        uuid not null,
    request_hash  bytea,
    expires_at    timestamptz,
    primary key (tenant_id, dedupe_hash)
);

create index dedupe_holds_expiry on leasehold.dedupe_holds (expires_at) where expires_at is not null;

-- Every attempt that did not succeed. A succeeded attempt is read off its job's row (a command's, with its exit code,
-- is here), since a row at each claim and an update at each finish cost 40 % more WAL and CPU. A manual retry records
-- the succeeded attempt before it removes that row.
create table leasehold.job_attempts (
    tenant_id    text collate "C" not null,
    job_id       uuid not null,
    attempt      integer not null,
    status       text not null check (
        status in ('succeeded', 'failed', 'timeout', 'canceled', 'crashed', 'snoozed', 'given_back')
    ),
    worker_id    uuid,
    started_at   timestamptz not null,
    finished_at  timestamptz not null,
    exit_code    integer,
    error        text,
    error_code   text,
    details      jsonb not null default '{}',
    primary key (tenant_id, job_id, attempt)
);

-- Log lines and progress; in a table of their own, since a write on the job's row would break a REPEATABLE READ finish.
create table leasehold.job_lines (
    tenant_id  text collate "C" not null,
    job_id     uuid not null,
    attempt    integer not null,
    number     integer not null,
    at         timestamptz not null,
    kind       text not null check (kind in ('log', 'progress', 'stdout', 'stderr')),
    text       text not null,
    progress   real,
    primary key (tenant_id, job_id, attempt, number)
);

-- --------------------------------------------------------------------------------------------------------- workers

create table leasehold.workers (
    id                uuid primary key,
    host              text not null,
    pid               integer not null,
    version           text not null,
    slots             integer not null,
    definitions       text[] not null,
    tenants           text[],
    metadata          jsonb not null default '{}',
    started_at        timestamptz not null,
    last_seen_at      timestamptz not null,
    lease_expires_at  timestamptz not null
) with (fillfactor = 50);

-- Sleeping workers, the jobs for which to wake them, and until when they sleep; `wakes_at` null: wake for any due time.
-- Each sleep is a new row, so that going to sleep never waits for a producer that holds an older row.
create table leasehold.sleepers (
    id           bigint generated always as identity primary key,
    worker_id    uuid not null,
    definitions  text[] not null,
    tenants      text[],
    wakes_at     timestamptz
) with (autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 0);

create index sleepers_worker on leasehold.sleepers (worker_id);

-- Count how many sleeps have begun, and how many of those are known to be over. While the two are equal no worker
-- sleeps, and a producer need not look. Sequences, since every snapshot reads their present value, without a scan
-- (figures in docs/decisions/0014). Definitions share eight pairs, so that a producer rarely looks for workers that
-- sleep for other definitions.
create sequence leasehold.sleeps_begun_0;
create sequence leasehold.sleeps_over_0;
create sequence leasehold.sleeps_begun_1;
create sequence leasehold.sleeps_over_1;
create sequence leasehold.sleeps_begun_2;
create sequence leasehold.sleeps_over_2;
create sequence leasehold.sleeps_begun_3;
create sequence leasehold.sleeps_over_3;
create sequence leasehold.sleeps_begun_4;
create sequence leasehold.sleeps_over_4;
create sequence leasehold.sleeps_begun_5;
create sequence leasehold.sleeps_over_5;
create sequence leasehold.sleeps_begun_6;
create sequence leasehold.sleeps_over_6;
create sequence leasehold.sleeps_begun_7;
create sequence leasehold.sleeps_over_7;
select setval('leasehold.sleeps_begun_0', 1), setval('leasehold.sleeps_over_0', 1),
       setval('leasehold.sleeps_begun_1', 1), setval('leasehold.sleeps_over_1', 1),
       setval('leasehold.sleeps_begun_2', 1), setval('leasehold.sleeps_over_2', 1),
       setval('leasehold.sleeps_begun_3', 1), setval('leasehold.sleeps_over_3', 1),
       setval('leasehold.sleeps_begun_4', 1), setval('leasehold.sleeps_over_4', 1),
       setval('leasehold.sleeps_begun_5', 1), setval('leasehold.sleeps_over_5', 1),
       setval('leasehold.sleeps_begun_6', 1), setval('leasehold.sleeps_over_6', 1),
       setval('leasehold.sleeps_begun_7', 1), setval('leasehold.sleeps_over_7', 1);

-- --------------------------------------------------------------------------------------------------------- reading

-- A job as people see it, from either table. Its moments are within the bounds that can be shown.
create view leasehold.job_records as
select j.tenant_id, j.id, j.definition, j.version, j.status,
       j.status <> 'queued' or j.scheduled_for <= (select leasehold.clock()) as due,
       j.priority, j.payload, j.attempt, j.max_attempts, j.forgiven,
       leasehold.shown(j.scheduled_for) as scheduled_for, leasehold.shown(j.queued_at) as queued_at,
       leasehold.shown(j.started_at) as started_at, null::timestamptz as finished_at,
       leasehold.shown(j.deadline) as deadline, j.worker_id, leasehold.shown(w.lease_expires_at) as lease_expires_at,
       leasehold.shown(j.cancel_requested_at) as cancel_requested_at,
       null::jsonb as result, j.last_error, j.last_error_code, j.dedupe_key, j.source, j.source_ref,
       j.correlation_id, j.created_by
from leasehold.jobs j left join leasehold.workers w on w.id = j.worker_id
union all
select d.tenant_id, d.id, d.definition, d.version, d.status,
       true,
       d.priority, d.payload, d.attempt, d.max_attempts, d.forgiven,
       leasehold.shown(d.scheduled_for), leasehold.shown(d.queued_at), leasehold.shown(d.started_at),
       leasehold.shown(d.finished_at), leasehold.shown(d.deadline), d.worker_id, null,
       leasehold.shown(d.cancel_requested_at),
       d.result, d.last_error, d.last_error_code, d.dedupe_key, d.source, d.source_ref,
       d.correlation_id, d.created_by
from leasehold.jobs_done d;

-- Finds the newest jobs of a tenant that match a filter. Ids are time-ordered (uuid7) unless the caller supplied one.
-- The planner inlines this function into the calling statement, with its values: a filter that is null costs nothing.
-- An id may be any UUID: `up_to` is included, so that the greatest one is found; if it is null, nothing is found.
create function leasehold.find_job_ids(
    tenant text, up_to uuid, active text[], running boolean, succeeded boolean, unusual text[], definitions text[],
    source text, correlation_id text, due boolean, tried boolean, created_after timestamptz,
    created_before timestamptz, most bigint
) returns setof uuid language sql stable as $$
    select matching.id
    from (
        (select job.id from leasehold.jobs job
         where job.tenant_id = find_job_ids.tenant and job.id <= find_job_ids.up_to
           and job.status = any (find_job_ids.active) and cardinality(find_job_ids.active) > 0
           and (find_job_ids.due is null
                or find_job_ids.due = (job.status <> 'queued' or job.scheduled_for <= (select leasehold.clock())))
           and include(list_filter)
         order by job.id desc limit find_job_ids.most)
        union all
        -- Without the waiting jobs, the few that run are found by their own index.
        (select running.id from leasehold.definitions f
         cross join lateral (
             select job.id from leasehold.jobs job
             where job.status = 'running' and job.definition = f.key and job.tenant_id = find_job_ids.tenant
               and job.id <= find_job_ids.up_to and find_job_ids.due is not false
               and include(list_filter)
             order by job.started_at
         ) running
         where find_job_ids.running
         order by running.id desc limit find_job_ids.most)
        union all
        (select job.id from leasehold.jobs_done job
         where job.tenant_id = find_job_ids.tenant and job.id <= find_job_ids.up_to and job.status = 'succeeded'
           and find_job_ids.succeeded and find_job_ids.due is not false
           and include(list_filter)
         order by job.id desc limit find_job_ids.most)
        union all
        -- The few that did not succeed have an index by status: one short scan for each.
        (select ended.id from unnest(find_job_ids.unusual) as wanted (status)
         cross join lateral (
             select job.id from leasehold.jobs_done job
             where job.tenant_id = find_job_ids.tenant and job.id <= find_job_ids.up_to
               and job.status = wanted.status and job.status <> 'succeeded' and find_job_ids.due is not false
               and include(list_filter)
             order by job.id desc limit find_job_ids.most
         ) ended)
    ) matching
    order by matching.id desc limit find_job_ids.most
$$;

-- ----------------------------------------------------------------------------------------------------------- wakes

create function leasehold.channel(worker uuid) returns text language sql immutable parallel safe
    as $$ select 'leasehold' || ':' || replace(worker::text, '-', '') $$;

-- The channel of all workers, for producers that can't see which workers sleep.
create function leasehold.channel_for_all() returns text language sql immutable parallel safe
    as $$ select 'leasehold' || ':all' $$;

-- The channel for callers that wait for results.
create function leasehold.channel_for_results() returns text language sql immutable parallel safe
    as $$ select 'leasehold' || ':ended' $$;

-- Producers hold this lock shared until they commit; a worker that gets it exclusively knows that no producer is in
-- flight.
create function leasehold.sleep_key() returns bigint language sql immutable parallel safe
    as $$ select hashtextextended('leasehold' || ':sleep', 0) $$;

-- A worker's listening session holds this lock, shared: a new session need not wait for the server to notice that an
-- old one is gone. The lock ends with the session, even after kill -9.
create function leasehold.listener_key(worker uuid) returns bigint language sql immutable parallel safe
    as $$ select hashtextextended('leasehold' || ':listener:' || worker::text, 0) $$;

create function leasehold.share_of(definition text) returns integer language sql immutable parallel safe
    as $$ select 1 + (hashtext(definition) & 7) $$;

create function leasehold.sleeps_begun(definition text) returns regclass language sql stable parallel safe as $$
    select (array[
        'leasehold.sleeps_begun_0'::regclass, 'leasehold.sleeps_begun_1'::regclass,
        'leasehold.sleeps_begun_2'::regclass, 'leasehold.sleeps_begun_3'::regclass,
        'leasehold.sleeps_begun_4'::regclass, 'leasehold.sleeps_begun_5'::regclass,
        'leasehold.sleeps_begun_6'::regclass, 'leasehold.sleeps_begun_7'::regclass
    ])[leasehold.share_of(definition)]
$$;

create function leasehold.sleeps_over(definition text) returns regclass language sql stable parallel safe as $$
    select (array[
        'leasehold.sleeps_over_0'::regclass, 'leasehold.sleeps_over_1'::regclass,
        'leasehold.sleeps_over_2'::regclass, 'leasehold.sleeps_over_3'::regclass,
        'leasehold.sleeps_over_4'::regclass, 'leasehold.sleeps_over_5'::regclass,
        'leasehold.sleeps_over_6'::regclass, 'leasehold.sleeps_over_7'::regclass
    ])[leasehold.share_of(definition)]
$$;

create function leasehold.limit_key(kind text, key text) returns bigint language sql immutable parallel safe
    as $$ select hashtextextended('leasehold' || ':limit:' || kind || ':' || key, 0) $$;

create function leasehold.listens(worker uuid) returns boolean language plpgsql volatile as $$
begin
    -- A worker that was evicted while a producer held its sleep, so that the sleep stayed, may stand still with its
    -- connection open: it would swallow the wake.
    if not exists (select from leasehold.workers w where w.id = worker) then
        return false;
    end if;
    -- The lock is free: no session listens. The exception undoes the lock, so that a worker that returns never waits
    -- for us.
    if pg_try_advisory_xact_lock(leasehold.listener_key(worker)) then
        raise exception using errcode = 'LH001';
    end if;
    return true;
exception when sqlstate 'LH001' then
    return false;
end $$;

-- How long a producer waits for the lock of workers that go to sleep. They hold it for microseconds; but any role that
-- may connect can take it and keep it.
create function leasehold.longest_wait_for_sleepers() returns text language sql immutable parallel safe
    as $$ select '100ms' $$;

-- Takes the lock that a worker finds taken if it goes to sleep before we commit. Returns false if another session keeps
-- the lock. Then the caller notifies all workers: its NOTIFY reaches every listener at our commit, and a worker listens
-- before it sleeps.
create function leasehold.keeps_workers_awake() returns boolean language plpgsql volatile as $$
declare
    before text := current_setting('lock_timeout');
begin
    if pg_try_advisory_xact_lock_shared(leasehold.sleep_key()) then
        return true;
    end if;
    -- Only here a subtransaction: nearly every producer gets the lock at once.
    begin
        perform set_config('lock_timeout', leasehold.longest_wait_for_sleepers(), true);
        perform pg_advisory_xact_lock_shared(leasehold.sleep_key());
        perform set_config('lock_timeout', before, true);
        return true;
    exception when lock_not_available then
        return false;
    end;
end $$;

-- Wakes workers for new work: the n-th job is of definitions[n], for tenants[n], due at dues[n]. A null tenant stands
-- for one that only workers for all tenants serve for certain; a null due time for now. Wakes only the sleepers that
-- are needed: a sleeper that can run several of the jobs is woken once. Returns how many were woken.
create function leasehold.wake(definitions text[], tenants text[], dues timestamptz[]) returns integer
language plpgsql volatile as $$
#variable_conflict use_variable
declare
    sleeper leasehold.sleepers;
    woken integer := 0;
    all_definitions constant text[] := definitions;
    all_dues constant timestamptz[] := dues;
begin
    if coalesce(cardinality(definitions), 0) = 0 then
        return 0;
    end if;
    -- A worker that goes to sleep after this sees our job or finds this lock taken. The lock is held until we commit.
    if not leasehold.keeps_workers_awake()
        -- An old snapshot can't see workers that went to sleep since.
        or current_setting('transaction_isolation') not in ('read committed', 'read uncommitted')
    then
        perform pg_notify(leasehold.channel_for_all(), 'work');
        return 1;
    end if;
    -- No worker sleeps that could run them. The rest would take four statements and a subtransaction to find that out.
    if not exists (select from leasehold.sleepers s where leasehold.is_needed(s, definitions, tenants, dues)) then
        return 0;
    end if;
    for round in 1..3 loop
        loop
            select s.* into sleeper from leasehold.sleepers s
            where leasehold.is_needed(s, definitions, tenants, dues)
            order by s.id limit 1 for update skip locked;
            exit when not found;
            delete from leasehold.sleepers s where s.id = sleeper.id;
            perform set_config('leasehold_wakes.took', 'yes', true);
            continue when not leasehold.listens(sleeper.worker_id);
            perform pg_notify(leasehold.channel(sleeper.worker_id), 'work');
            woken := woken + 1;
            select u.* into definitions, tenants, dues from leasehold.unserved(sleeper, definitions, tenants, dues) u;
            exit when definitions is null;
        end loop;
        exit when definitions is null or not leasehold.rivals_have_ended(definitions, tenants, dues);
    end loop;
    if definitions is not null then
        -- Another producer may hold a sleeper for the remaining work. It may roll back: notify, delete nothing.
        for sleeper in select s.* from leasehold.sleepers s order by s.id loop
            continue when not leasehold.is_needed(sleeper, definitions, tenants, dues)
                or not leasehold.listens(sleeper.worker_id);
            perform pg_notify(leasehold.channel(sleeper.worker_id), 'work');
            woken := woken + 1;
            select u.* into definitions, tenants, dues from leasehold.unserved(sleeper, definitions, tenants, dues) u;
            exit when definitions is null;
        end loop;
    end if;
    if woken > 0 then
        perform leasehold.announce_due_times(all_definitions, all_dues);
    end if;
    return woken;
end $$;

-- The sleeper that was woken for a later time may die before that time. So all listeners are told of it, in seconds
-- from now by the database's clock, and each that serves the definition sets a timer, which costs no statement. A
-- sleeper that was not woken needs no message: its own timer wakes it before that time.
create function leasehold.announce_due_times(definitions text[], dues timestamptz[]) returns void
language plpgsql volatile as $$
#variable_conflict use_variable
declare
    now constant timestamptz := leasehold.clock();
begin
    -- Nearly all work is due now.
    if (now < any (dues)) is not true then
        return;
    end if;
    perform pg_notify(
        leasehold.channel_for_all(),
        format('due %s %s', round(extract(epoch from work.due - now)::numeric, 3), work.definition))
    from (
        select w.definition, min(w.due) as due from unnest(definitions, dues) as w (definition, due)
        where w.due > now
        group by w.definition
    ) work;
end $$;

-- Takes the lock that a worker finds taken if it goes to sleep before we commit. Returns true if also no worker sleeps
-- that serves this definition, whatever our snapshot shows. A CASE keeps the order: a sleep that begins after the lock
-- was taken begins after the job can be seen, or is refused. Returns false also if the lock is refused: then
-- wake_for_one waits for it. The planner inlines this function.
create function leasehold.nobody_sleeps(definition text) returns boolean language sql volatile as $$
    select case when pg_try_advisory_xact_lock_shared(leasehold.sleep_key())
           then pg_sequence_last_value(leasehold.sleeps_begun(definition))
              = pg_sequence_last_value(leasehold.sleeps_over(definition))
           else false end
$$;

-- Counts a sleep whose row exists, and only then looks whether a producer is in flight. A producer that comes later
-- sees the count. A dump reads sequences one after the other, so in a restored database more sleeps may be over than
-- have begun, and this sleep would look over; then none is noted as over. That is always safe: a smaller number only
-- makes producers look, and the next one that finds no sleeper writes a true number.
create function leasehold.may_sleep(definitions text[]) returns boolean language plpgsql volatile as $$
declare
    one text;
begin
    for one in select min(d.key) from unnest(definitions) as d (key) group by leasehold.share_of(d.key) loop
        if nextval(leasehold.sleeps_begun(one)) <= pg_sequence_last_value(leasehold.sleeps_over(one)) then
            perform setval(leasehold.sleeps_over(one), 1);
        end if;
    end loop;
    return pg_try_advisory_xact_lock(leasehold.sleep_key());
end $$;

-- Wakes a worker for one lane, as nearly every enqueue needs it.
create function leasehold.wake_for_one(definition text, tenant text, due timestamptz) returns integer
language plpgsql volatile as $$
#variable_conflict use_variable
declare
    begun bigint;
    woken uuid;
begin
    if leasehold.nobody_sleeps(definition) then
        return 0;
    end if;
    if not leasehold.keeps_workers_awake() then
        perform pg_notify(leasehold.channel_for_all(), 'work');
        return 1;
    end if;
    -- Separate statements: the looks that follow have younger snapshots than the lock and the count.
    begun := pg_sequence_last_value(leasehold.sleeps_begun(definition));
    if current_setting('transaction_isolation') <> 'read committed' then
        return leasehold.wake(array[definition], array[tenant], array[due]);
    end if;
    -- As wake(), by one statement for each sleeper: an enqueue that wakes a worker mostly comes this far only.
    loop
        delete from leasehold.sleepers t
        where t.id = (
            select s.id from leasehold.sleepers s where leasehold.can_run(s, definition, tenant, due)
            order by s.id limit 1 for update skip locked
        )
        returning t.worker_id into woken;
        exit when not found;
        perform set_config('leasehold_wakes.took', 'yes', true);
        continue when not leasehold.listens(woken);
        perform pg_notify(leasehold.channel(woken), 'work');
        perform leasehold.announce_due_times(array[definition], array[due]);
        return 1;
    end loop;
    -- Another producer holds the one that is left.
    if exists (select from leasehold.sleepers s where leasehold.can_run(s, definition, tenant, due)) then
        return leasehold.wake(array[definition], array[tenant], array[due]);
    end if;
    -- Each row existed before it was counted. So no counted row is left, and no producer need look again, unless this
    -- transaction deleted one and may yet roll back.
    if current_setting('leasehold_wakes.took', true) is distinct from 'yes' and not exists (
        select from leasehold.sleepers s cross join unnest(s.definitions) as d (key)
        where leasehold.share_of(d.key) = leasehold.share_of(definition)
    ) then
        perform setval(leasehold.sleeps_over(definition), begun);
    end if;
    return 0;
end $$;

-- How long a producer waits for another that holds a sleeper: longer than a disk write, too short to be noticed.
create function leasehold.patience() returns text language sql immutable parallel safe as $$ select '10ms' $$;

-- Another producer may hold the only sleeper that is needed here. It mostly commits within a disk write: then the
-- sleeper is awake, and before it sleeps again it finds that we are in flight. So a short wait saves a NOTIFY of our
-- own, which would queue behind all others, for a disk write each (figures in docs/decisions/0008). Returns true if the
-- hold has ended: look again. Returns false if no producer holds one, or one does for too long, as in a long
-- transaction.
create function leasehold.rivals_have_ended(definitions text[], tenants text[], dues timestamptz[]) returns boolean
language plpgsql volatile as $$
#variable_conflict use_variable
declare
    before text := current_setting('lock_timeout');
begin
    if not exists (select from leasehold.sleepers s where leasehold.is_needed(s, definitions, tenants, dues)) then
        return false;
    end if;
    perform set_config('lock_timeout', leasehold.patience(), true);
    perform from leasehold.sleepers s where leasehold.is_needed(s, definitions, tenants, dues)
    order by s.id limit 1 for update;
    perform set_config('lock_timeout', before, true);
    return true;
exception when lock_not_available then
    return false;
end $$;

create function leasehold.can_run(sleeper leasehold.sleepers, definition text, tenant text, due timestamptz)
returns boolean language sql immutable parallel safe as $$
    select definition = any (sleeper.definitions)
       and (sleeper.tenants is null or coalesce(tenant = any (sleeper.tenants), false))
       and (sleeper.wakes_at is null or due is null or due < sleeper.wakes_at)
$$;

create function leasehold.is_needed(
    sleeper leasehold.sleepers, definitions text[], tenants text[], dues timestamptz[]
) returns boolean language plpgsql immutable parallel safe as $$
#variable_conflict use_variable
begin
    return exists (
        select from unnest(definitions, tenants, dues) as w (definition, tenant, due)
        where leasehold.can_run(sleeper, w.definition, w.tenant, w.due)
    );
end $$;

-- Returns the work that is left when this sleeper takes all that it can; all null if nothing is left.
create function leasehold.unserved(
    sleeper leasehold.sleepers, inout definitions text[], inout tenants text[], inout dues timestamptz[]
) language plpgsql immutable parallel safe as $$
#variable_conflict use_variable
begin
    select array_agg(w.definition), array_agg(w.tenant), array_agg(w.due) into definitions, tenants, dues
    from unnest(definitions, tenants, dues) as w (definition, tenant, due)
    where not leasehold.can_run(sleeper, w.definition, w.tenant, w.due);
end $$;

create function leasehold.has_work(definition text, tenant text) returns boolean language plpgsql stable as $$
begin
    return exists (
        select from leasehold.jobs j
        where j.ready and j.definition = has_work.definition and j.tenant_id = has_work.tenant
        order by j.priority, j.seq limit 1
    );
end $$;

-- Lists lanes with work in a scope that may start jobs again because its limit was raised, its pause ended or one of
-- its jobs ended; with the due time, null for now. A definition's future jobs count, since sleeping workers have not
-- looked at those of a held definition. A definition may have very many tenants; only those matter that some sleeper
-- names.
create function leasehold.lanes_of(kind text, key text)
returns table (definition text, tenant text, due timestamptz) language sql stable as $$
    select d.key, lanes_of.key, null::timestamptz from leasehold.definitions d
    where lanes_of.kind = 'tenant' and leasehold.has_work(d.key, lanes_of.key)
    union all
    select lanes_of.key, null, null
    where lanes_of.kind = 'definition'
      and exists (select from leasehold.jobs j where j.ready and j.definition = lanes_of.key limit 1)
    union all
    select lanes_of.key, named.tenant, null
    from (select distinct unnest(s.tenants) from leasehold.sleepers s) as named (tenant)
    where lanes_of.kind = 'definition' and leasehold.has_work(lanes_of.key, named.tenant)
    union all
    select lanes_of.key, named.tenant, future.scheduled_for
    from (
        select j.scheduled_for from leasehold.jobs j
        where lanes_of.kind = 'definition' and j.status = 'queued' and not j.ready and j.definition = lanes_of.key
        order by j.scheduled_for limit 1
    ) future
    cross join (
        select null union all select distinct unnest(s.tenants) from leasehold.sleepers s
    ) as named (tenant)
$$;

-- Wakes workers for held work in these scopes. Takes the lock before any look, as wake() does, which takes it again. A
-- session keeps the plans of this function, so it may not read tables whole that were empty when the plans were made.
-- The planner counts a cost of 10 billion for a table that must be read whole, and would have each call compiled first:
-- to set 70 limits took 90 s, and takes 1 s without that.
create function leasehold.wake_held(kinds text[], keys text[]) returns integer language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
begin
    if not leasehold.keeps_workers_awake() then
        perform pg_notify(leasehold.channel_for_all(), 'work');
        return 1;
    end if;
    return (
        select leasehold.wake(array_agg(lane.definition), array_agg(lane.tenant), array_agg(lane.due))
        from unnest(kinds, keys) as scope (kind, key)
        cross join lateral leasehold.lanes_of(scope.kind, scope.key) lane
    );
end $$;

-- Returns whether this tenant may start nothing now: it is paused, or at its cap.
create function leasehold.tenant_is_held(tenant text) returns boolean language plpgsql stable as $$
begin
    return exists (
        select from leasehold.limits l
        where l.kind = 'tenant' and l.key = tenant_is_held.tenant
          and ((l.paused_at is not null and coalesce(l.paused_until > (select leasehold.clock()), true))
               or l.max_running <= (
                   select count(*) from leasehold.definitions f
                   cross join lateral (
                       select from leasehold.jobs r
                       where r.status = 'running' and r.definition = f.key and r.tenant_id = l.key
                         and r.started_at >= coalesce(l.running_from, '-infinity')
                       order by r.started_at limit l.max_running
                   ) running))
    );
end $$;

-- Returns the definitions among these that may start jobs now: active, not paused, below their cap.
create function leasehold.startable(definitions text[]) returns setof text language sql stable as $$
    select d.key from leasehold.definitions d
    where d.key = any (startable.definitions) and d.active and not exists (
        select from leasehold.limits l
        where l.kind = 'definition' and l.key = d.key
          and ((l.paused_at is not null and coalesce(l.paused_until > (select leasehold.clock()), true))
               or l.max_running <= (
                   select count(*) from (
                       select from leasehold.jobs r
                       where r.status = 'running' and r.definition = d.key
                         and r.started_at >= coalesce(l.running_from, '-infinity')
                       order by r.tenant_id, r.started_at limit l.max_running
                   ) running))
    )
$$;

-- Returns whether a ready job of this definition belongs to a tenant that may start it. Looks at 20 tenants at most,
-- each by one index probe: if all of those are held, the answer is a guess, which costs a worker one claim in vain.
create function leasehold.has_startable_work(definition text) returns boolean language plpgsql stable as $$
begin
    return (with recursive lane as (
        (select j.tenant_id, 1 as number from leasehold.jobs j
         where j.ready and j.definition = has_startable_work.definition
         order by j.tenant_id, j.priority, j.seq limit 1)
        union all
        select next.tenant_id, lane.number + 1 from lane
        cross join lateral (
            select j.tenant_id from leasehold.jobs j
            where j.ready and j.definition = has_startable_work.definition and j.tenant_id > lane.tenant_id
            order by j.tenant_id, j.priority, j.seq limit 1
        ) next
        where lane.number < 20
    )
    select exists (select from lane where lane.number = 20 or not leasehold.tenant_is_held(lane.tenant_id)));
end $$;

-- Lists ready lanes of the given definitions and tenants that another sleeper could run, without held work. A null
-- tenant means: of some tenant, for a sleeper that serves all of them. 500 lanes of named tenants are enough for one
-- call: each worker that is woken and fills up calls again.
create function leasehold.lanes_for_others(worker uuid, definitions text[], tenants text[])
returns table (definition text, tenant text) language sql stable as $$
    with other as materialized (
        select s.definitions, s.tenants from leasehold.sleepers s
        where s.worker_id <> lanes_for_others.worker and s.definitions && lanes_for_others.definitions
    ),
    served as materialized (
        select d.key from leasehold.startable(lanes_for_others.definitions) as d (key)
        where exists (select from other where d.key = any (other.definitions))
    )
    select served.key, null from served
    where lanes_for_others.tenants is null
      and exists (select from other where served.key = any (other.definitions) and other.tenants is null)
      and leasehold.has_startable_work(served.key)
    union all
    (select served.key, named.tenant from served
     cross join (
         select unnest(lanes_for_others.tenants)
         union
         select unnest(other.tenants) from other where lanes_for_others.tenants is null
     ) as named (tenant)
     where exists (
               select from other
               where served.key = any (other.definitions)
                 and (other.tenants is null or named.tenant = any (other.tenants)))
       and leasehold.has_work(served.key, named.tenant)
       and not leasehold.tenant_is_held(named.tenant)
     limit 500)
$$;

-- A worker that has no room left, or that stops, passes its wake on: every ready lane that it serves gets a sleeper
-- that can run it. The worker itself is not asleep, so its own row goes first; a row that a producer holds is left to
-- that producer.
create function leasehold.wake_another(worker uuid, definitions text[], tenants text[]) returns integer
language plpgsql volatile as $$
#variable_conflict use_variable
begin
    delete from leasehold.sleepers
    where id in (select s.id from leasehold.sleepers s where s.worker_id = worker for update skip locked);
    if not exists (select from leasehold.sleepers s where s.worker_id <> worker) then
        return 0;
    end if;
    return (
        select leasehold.wake(array_agg(lane.definition), array_agg(lane.tenant), array_agg(null::timestamptz))
        from leasehold.lanes_for_others(worker, definitions, tenants) lane
    );
end $$;

-- Returns whether a job that this worker serves is ready and may start. An idle worker asks with each heartbeat, since
-- the worker that was woken for the job may stand still.
create function leasehold.work_waits(definitions text[], tenants text[]) returns boolean language plpgsql stable as $$
begin
    return exists (
        select from leasehold.startable(work_waits.definitions) as served (key)
        where case
            when work_waits.tenants is null then leasehold.has_startable_work(served.key)
            else exists (
                select from unnest(work_waits.tenants) as mine (tenant)
                where leasehold.has_work(served.key, mine.tenant) and not leasehold.tenant_is_held(mine.tenant))
            end
    );
end $$;

-- Returns whether any scope has a cap. Without caps no work waits for room, and a finish need not gather the scopes
-- that it has freed. Volatile, so that it also sees a cap that was set after the finish began.
create function leasehold.has_caps() returns boolean language plpgsql volatile as $$
begin
    return exists (select from leasehold.limits where max_running is not null);
end $$;

-- Wakes workers if ended jobs freed a capped scope. Null tenants: nothing was gathered, since no scope is capped.
create function leasehold.wake_for_freed(tenants text[], definitions text[]) returns integer
language plpgsql volatile as $$
#variable_conflict use_variable
declare
    kinds text[];
    keys text[];
begin
    if tenants is null then
        return null;
    end if;
    select array_agg(capped.kind), array_agg(capped.key) into kinds, keys
    from (
        select l.kind, l.key from unnest(tenants) as t (key)
        join leasehold.limits l on l.kind = 'tenant' and l.key = t.key and l.max_running is not null
        union all
        select l.kind, l.key from unnest(definitions) as d (key)
        join leasehold.limits l on l.kind = 'definition' and l.key = d.key and l.max_running is not null
    ) capped;
    if keys is null then
        return null;
    end if;
    return leasehold.wake_held(kinds, keys);
end $$;

-- --------------------------------------------------------------------------------------------- effects of handlers

-- Ends a claim as succeeded within the transaction that its handler writes in: both are committed, or neither. It takes
-- one JSON object, since every driver writes parameters in its own way. It answers
--     finished   and committed with the transaction
--     fenced     the claim is lost, or its worker's registration: roll back
--     ended      this is not the transaction that was begun for the claim: the handler has ended that one
-- It runs as its owner: the role of a handler's connection needs no rights on these tables, only EXECUTE.
create function leasehold.finish_within(claim jsonb) returns text language plpgsql volatile
security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    gone leasehold.jobs;
    moment timestamptz := leasehold.clock();
begin
    if current_setting('leasehold_effects.claim', true) is distinct from claim ->> 'mark' then
        return 'ended';
    end if;
    perform leasehold.force_sync_commit();
    -- From here to the commit the job's row is locked. A process that is stopped in between must not keep it locked.
    perform set_config('idle_in_transaction_session_timeout', '10s', true);
    delete from leasehold.jobs j
    where j.tenant_id = claim ->> 'tenant' and j.id = (claim ->> 'job')::uuid
      and j.attempt = (claim ->> 'attempt')::integer and j.worker_id = (claim ->> 'worker')::uuid
      and j.claim_batch = (claim ->> 'batch')::bigint
      and exists (select from leasehold.workers w where w.id = j.worker_id)
    returning j.* into gone;
    if not found then
        return 'fenced';
    end if;
    insert into leasehold.jobs_done (
        include(moved_columns),
        worker_id, cancel_requested_at, status, finished_at, prune_after, result, last_error, last_error_code
    )
    select include(moved_columns),
           worker_id, cancel_requested_at, 'succeeded', moment,
           moment + make_interval(secs => (claim ->> 'keep')::float), claim -> 'result', last_error, last_error_code
    from (select (gone).*) job;
    perform leasehold.wake_for_freed(array[gone.tenant_id], array[gone.definition]);
    if gone.awaited then
        perform pg_notify(leasehold.channel_for_results(), '');
    end if;
    return 'finished';
end $$;

-- Every role that knows a claim could end it, and claims stand in logs.
revoke execute on function leasehold.finish_within from public;

-- Enqueue from any language, within the caller's transaction.
--
--     leasehold.enqueue(…)       one job, for triggers and for people; raises a refusal
--     leasehold.enqueue_jobs(…)  the jobs of one call as one jsonb parameter, for drivers; returns a refusal as a row,
--                                so that the caller's transaction can go on
--     leasehold.wake_workers(…)  wakes workers for jobs that were enqueued without a wake, once they are committed
--
-- All run with the rights of the schema's owner: an app's role needs USAGE on the schema and EXECUTE on them, no other
-- right. Their signatures only ever grow at the end, by arguments that have defaults. Their implementation may change.
--
-- Their statements are planned when a session first runs them, by statistics of any age: told that tables are empty,
-- the planner would read them whole for as long as the session lasts (20 jobs: 513 buffers became 21,271). So
-- sequential scans are off. Before version 18 the planner then adds 1e10 to the cost of an empty table's scan, for
-- which the server compiles the statement: an enqueue on PostgreSQL 15 took 25 ms instead of 2. So jit is off, too. And
-- they have one plan for all values: otherwise the planner finds a plan for an array of a single job cheaper, and makes
-- one at each call.
--
-- Refusals have SQLSTATE 'L' and the four digits of the error's code: LH-1002 is 'L1002'. A transaction that lost a
-- race has Postgres' own 40001: run it again.

create type leasehold.new_job as (
    definition      text,
    version         integer,
    payload         jsonb,
    id              uuid,
    priority        integer,
    max_attempts    integer,
    delay           interval,
    at              timestamptz,
    deadline        timestamptz,
    dedupe          text,
    dedupe_key      text,
    dedupe_for      interval,
    on_conflict     text,
    source          text,
    source_ref      text,
    correlation_id  text,
    created_by      text
);

create function leasehold.refuse(code text, happened text, fix text, about text default '') returns void
language plpgsql volatile as $$
begin
    raise exception using
        errcode = 'L' || right(code, 4), message = code || ': ' || happened, hint = fix, detail = about;
end $$;

-- ------------------------------------------------------------------------------------------------- keys and hashes

-- Makes a time-ordered id: 48 bits of milliseconds, 12 of their fraction, the rest random.
create function leasehold.uuid7() returns uuid language plpgsql volatile parallel safe as $$
declare
    micros constant bigint := floor(extract(epoch from leasehold.clock()) * 1000000);
begin
    return encode(
        substring(int8send(micros / 1000) from 3)
        || int2send((28672 + micros % 1000 * 4096 / 1000)::smallint)
        || substring(uuid_send(gen_random_uuid()) from 9), 'hex')::uuid;
end $$;

-- Writes JSON with sorted keys and no spaces: the same text for equal payloads, here and in Python
-- (leasehold.model.dedupe).
create function leasehold.canonical(value jsonb) returns text language plpgsql immutable parallel safe as $$
begin
    return case jsonb_typeof(value)
        when 'object' then '{' || coalesce((
            select string_agg(
                to_json(e.key)::text || ':' || case
                    when jsonb_typeof(e.value) in ('object', 'array') then leasehold.canonical(e.value)
                    else e.value::text
                end, ',' order by e.key collate "C")
            from jsonb_each(value) e), '') || '}'
        when 'array' then '[' || coalesce((
            select string_agg(
                case
                    when jsonb_typeof(e.value) in ('object', 'array') then leasehold.canonical(e.value)
                    else e.value::text
                end, ',' order by e.ordinality)
            from jsonb_array_elements(value) with ordinality e), '') || ']'
        else value::text
    end;
end $$;

-- Returns the key of a job that has none. If it were longer than a key may be, it has the hash of the payload instead.
create function leasehold.canonical_key(tenant text, definition text, payload jsonb) returns text
language plpgsql immutable parallel safe as $$
declare
    scope constant text := definition || '::' || case tenant when 'default' then 'global' else tenant end || '::';
    canonical constant text := leasehold.canonical(payload);
begin
    return scope || case
        when length(scope) + length(canonical) <= 1000 then canonical
        else 'sha256:' || encode(sha256(convert_to(canonical, 'UTF8')), 'hex')
    end;
end $$;

create function leasehold.dedupe_hash(tenant text, job leasehold.new_job) returns bytea
language plpgsql immutable parallel safe as $$
begin
    return sha256(convert_to(
        coalesce(job.dedupe_key, leasehold.canonical_key(tenant, job.definition, job.payload)), 'UTF8'));
end $$;

-- Hashes an id, after a byte that no key can have: a key must not be taken for an id.
create function leasehold.id_hash(id uuid) returns bytea language plpgsql immutable parallel safe
    as $$ begin return sha256('\x00'::bytea || convert_to('id:' || id::text, 'UTF8')); end $$;

-- Hashes the request under an id that the caller supplied.
create function leasehold.request_hash(definition text, payload jsonb) returns bytea
language plpgsql immutable parallel safe
    as $$ begin return sha256(convert_to(definition || '::' || payload::text, 'UTF8')); end $$;

-- -------------------------------------------------------------------------------------------------------- refusals

-- A regular expression for characters that people can't see, as in leasehold.model.hidden.
create function leasehold.hidden_characters() returns text language sql immutable parallel safe as $$
    select '[\u0001-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e'
        '\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f]'
$$;

-- Returns the first of them in a text, in the form \u200b. Only for refusals: it is not inlined.
create function leasehold.hidden_character(name text) returns text language sql immutable parallel safe as $$
    select case when code > 65535 then '\U' || lpad(to_hex(code), 8, '0') else '\u' || lpad(to_hex(code), 4, '0') end
    from ascii(substring(name from leasehold.hidden_characters())) code
$$;

-- Refuses a tenant id as leasehold.model.job.tenant_id does: no hidden characters, no outer spaces of any script.
create function leasehold.require_tenant(tenant text) returns void language plpgsql immutable as $$
declare
    spaces constant text := '\u0009-\u000d\u001c-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000';
begin
    if tenant is null or length(tenant) not between 1 and 100
        or tenant ~ ('^[' || spaces || ']|[' || spaces || ']$|[\u0001-\u001f\u007f-\u009f]')
    then
        perform leasehold.refuse(
            'LH-1000',
            format('%s is not a tenant id: 1 to 100 characters, no control characters, no outer spaces.',
                   coalesce(quote_literal(left(tenant, 120)), 'null')),
            'Nothing was enqueued. Use the tenant''s slug or UUID.');
    elsif tenant ~ leasehold.hidden_characters() then
        perform leasehold.refuse(
            'LH-1000',
            format('that is not a tenant id: it has %s, a character that can''t be seen.',
                   leasehold.hidden_character(tenant)),
            'Nothing was enqueued. Use the tenant''s slug or UUID.');
    end if;
end $$;

-- Counts the bytes of a payload without the spaces between the parts of its JSON: what is sent has none.
create function leasehold.size_of(payload jsonb) returns integer language sql immutable parallel safe as $$
    select case
        when octet_length(payload::text) <= 262144 then octet_length(payload::text)
        else octet_length(payload::text)
            - length(regexp_replace(regexp_replace(payload::text, '"(\\.|[^"\\])*"', '', 'g'), '[^ ]', '', 'g'))
    end
$$;

create function leasehold.problem_of_payload(payload jsonb) returns text language plpgsql immutable parallel safe as $$
begin
    return case
        when payload is null then 'payload: null is not an object.'
        when jsonb_typeof(payload) <> 'object' then format('payload: %s is not an object.', jsonb_typeof(payload))
        when leasehold.size_of(payload) > 262144
            then format('payload: %s bytes of JSON, at most 262144 are kept.', leasehold.size_of(payload))
        when jsonb_path_exists(payload, 'strict $.**{32} ? (@.type() == "object" || @.type() == "array")')
            then 'payload: nested deeper than 32 levels.'
        -- A number that large has 309 digits, so that nearly all payloads need not be looked through.
        when octet_length(payload::text) > 308 and jsonb_path_exists(
            payload,
            'strict $.** ? (@.type() == "number" && (@ > 1.7976931348623157e308 || @ < -1.7976931348623157e308))')
            then 'payload: a number beyond 1.8e308, which most readers of JSON would take for infinity.'
    end;
end $$;

create function leasehold.problem_of_text(name text, text text) returns text
language plpgsql immutable parallel safe as $$
begin
    return case when length(text) > 1000
        then format('%s has %s characters, at most 1000 are kept', name, length(text)) end;
end $$;

-- Returns null for a null moment, too.
create function leasehold.problem_of_moment(name text, moment timestamptz) returns text
language plpgsql immutable parallel safe as $$
begin
    return case
        when not isfinite(moment) then format('%s=%s names no moment', name, moment)
        when moment < leasehold.earliest() or moment >= leasehold.latest()
            then format('%s=%s is not in the years 1900 to 9998', name, moment)
    end;
end $$;

-- Returns whether `now` plus this interval can be computed. Comparing does not tell: months and days of opposite signs
-- cancel out in a comparison, and yet each is added on its own.
create function leasehold.can_be_added(length interval) returns boolean language sql immutable parallel safe as $$
    select abs(extract(year from length)) <= 10 and abs(extract(day from length)) <= 3650
       and abs(extract(hour from length)) <= 87600
$$;

create function leasehold.problem_of(job leasehold.new_job) returns text
language plpgsql immutable parallel safe as $$
begin
    return case
        when job.priority not between -32768 and 32767
            then format('priority=%s is not between -32768 and 32767, lower runs first', job.priority)
        when job.max_attempts < 1
            then format('max_attempts=%s is not at least 1, it counts the first try', job.max_attempts)
        when job.version < 1
            then format('version=%s is not at least 1, null stands for the current one', job.version)
        when job.delay not between interval '0' and interval '3650 days' or not leasehold.can_be_added(job.delay)
            then format('delay=%s is not between zero and 3650 days', job.delay)
        when job.dedupe not in ('active', 'window', 'always')
            then format('dedupe=%L is none of active, window and always', job.dedupe)
        when length(job.dedupe_key) not between 1 and 1000
            then format('a dedupe key has 1 to 1000 characters, this one %s', length(job.dedupe_key))
        -- A canonical key holds a payload, whose texts may have any character.
        when job.dedupe_key is not null and job.dedupe_key !~ '::\{.*\}$'
            and job.dedupe_key ~ leasehold.hidden_characters()
            then format('the dedupe key has %s, a character that can''t be seen',
                        leasehold.hidden_character(job.dedupe_key))
        when job.dedupe = 'window' and job.dedupe_for is null then 'a window needs dedupe_for, how long it is'
        when job.dedupe_for is not null and coalesce(job.dedupe, 'active') = 'active'
            then 'dedupe_for goes with dedupe window or always'
        when job.dedupe_for <= interval '0' or job.dedupe_for > interval '3650 days'
            or not leasehold.can_be_added(job.dedupe_for)
            then format('dedupe_for=%s is not longer than zero and at most 3650 days', job.dedupe_for)
        when job.on_conflict not in ('return', 'raise', 'replace')
            then format('on_conflict=%L is none of return, raise and replace', job.on_conflict)
        when job.on_conflict <> 'return' and job.dedupe is null and job.dedupe_key is null
            then format('on_conflict=%L says what to do when a dedupe key is held, and there is none', job.on_conflict)
        when job.source not in ('manual', 'event', 'schedule', 'system')
            then format('source=%L is none of manual, event, schedule and system', job.source)
        else coalesce(
            leasehold.problem_of_moment('at', job.at),
            leasehold.problem_of_moment('deadline', job.deadline),
            leasehold.problem_of_text('definition', job.definition),
            leasehold.problem_of_text('source_ref', job.source_ref),
            leasehold.problem_of_text('correlation_id', job.correlation_id),
            leasehold.problem_of_text('created_by', job.created_by))
    end;
end $$;

-- Refuses unusable jobs. If there are several jobs, the refusal has the number of the first unusable one, from 1 on.
create function leasehold.require_usable(jobs leasehold.new_job[]) returns void language plpgsql stable as $$
declare
    job leasehold.new_job;
    number integer := 0;
    about text := '';
begin
    if not exists (
        select from unnest(jobs) j
        where leasehold.problem_of_payload(j.payload) is not null or leasehold.problem_of(j) is not null
    ) then
        return;
    end if;
    foreach job in array jobs loop
        number := number + 1;
        exit when leasehold.problem_of_payload(job.payload) is not null or leasehold.problem_of(job) is not null;
    end loop;
    if cardinality(jobs) > 1 then
        about := number::text;
    end if;
    if leasehold.problem_of_payload(job.payload) is not null then
        perform leasehold.refuse(
            'LH-1001', format('%s: %s', left(job.definition, 120), leasehold.problem_of_payload(job.payload)),
            'Nothing was enqueued. A payload is a JSON object; store large data elsewhere and pass where it is.',
            about);
    end if;
    perform leasehold.refuse(
        'LH-1000',
        format('The job of %L can''t be enqueued: %s.', left(job.definition, 120), leasehold.problem_of(job)),
        'Nothing was enqueued. Correct the values.', about);
end $$;

create function leasehold.require_accepted(jobs leasehold.new_job[]) returns void language plpgsql stable as $$
declare
    bad record;
begin
    select n.definition, n.version, d.version as current, d.active into bad
    from unnest(jobs) with ordinality n
    left join leasehold.definitions d on d.key = n.definition
    left join leasehold.definition_versions v on v.key = d.key and v.version = coalesce(n.version, d.version)
    where v.version is null or not d.active
    order by n.ordinality limit 1;
    if not found then
        return;
    elsif bad.current is null then
        perform leasehold.refuse(
            'LH-1002',
            format('no definition has the key "%s". Known: %s. Nothing was enqueued.', left(bad.definition, 120),
                coalesce(
                (select string_agg(d.key, ', ' order by d.key)
                 from (select key from leasehold.definitions order by key limit 5) d), 'none')),
            'If you just added it in code, run: leasehold definitions sync app.py');
    elsif not bad.active then
        perform leasehold.refuse(
            'LH-1005', format('%L is inactive: it takes nothing new. Nothing was enqueued.', bad.definition),
            'Run: leasehold definitions activate ' || bad.definition);
    else
        perform leasehold.refuse(
            'LH-1002',
            format('version %s of %L does not exist; version %s is current. Nothing was enqueued.',
                   bad.version, bad.definition, bad.current),
            'Run: leasehold definitions sync app.py, with the code that enqueues; or leave the version out.');
    end if;
end $$;

-- Returns the JSON types that a schema allows; null if it allows any, or if this function can't tell. A reference is
-- looked up in the whole schema, at most 8 deep: a schema may refer to itself.
create function leasehold.json_types(schema jsonb, whole jsonb, depth integer default 0) returns text[]
language plpgsql immutable parallel safe as $$
declare
    part jsonb;
    types text[];
    all_types text[] := '{}';
begin
    if depth > 8 or jsonb_typeof(schema) is distinct from 'object' then
        return null;
    elsif jsonb_typeof(schema -> 'type') = 'string' then
        return array[schema ->> 'type'];
    elsif jsonb_typeof(schema -> 'type') = 'array' then
        return array(select jsonb_array_elements_text(schema -> 'type'));
    elsif schema ->> '$ref' like '#/$defs/%' then
        return leasehold.json_types(whole #> string_to_array(substr(schema ->> '$ref', 3), '/'), whole, depth + 1);
    elsif jsonb_typeof(coalesce(schema -> 'anyOf', schema -> 'oneOf')) is distinct from 'array' then
        return null;
    end if;
    for part in select jsonb_array_elements(coalesce(schema -> 'anyOf', schema -> 'oneOf')) loop
        types := leasehold.json_types(part, whole, depth + 1);
        if types is null then
            return null;
        end if;
        all_types := all_types || types;
    end loop;
    return all_types;
end $$;

-- Returns the fields of a payload that do not fit the schema: missing, unknown, or of another JSON type. Null: all fit.
-- Formats, bounds, patterns and the inside of a field are left to the worker.
create function leasehold.problems_of_fields(payload jsonb, schema jsonb) returns text
language plpgsql immutable parallel safe as $$
declare
    -- A model that refers to itself is a reference as a whole.
    root constant jsonb := case
        when schema ->> '$ref' like '#/$defs/%' then schema #> string_to_array(substr(schema ->> '$ref', 3), '/')
        else schema
    end;
    required constant jsonb := case when jsonb_typeof(root -> 'required') = 'array' then root -> 'required' else '[]' end;
    properties constant jsonb := case
        when jsonb_typeof(root -> 'properties') = 'object' then root -> 'properties' else '{}'
    end;
    is_closed constant boolean := root -> 'additionalProperties' = 'false' and not root ? 'patternProperties';
    found text[];
begin
    select array_agg(problem) into found
    from (
        select format('payload.%s: missing', left(r.name, 120)) as problem
        from jsonb_array_elements_text(required) as r (name) where not payload ? r.name
        union all
        select case
            when not properties ? f.name then format('payload.%s: unknown field (known: %s%s)', left(f.name, 120), (
                select coalesce(string_agg(known.name, ', '), 'none')
                from (select name from jsonb_object_keys(properties) name order by name collate "C" limit 10) known),
                (select format(', and %s more', count(*) - 10) from jsonb_object_keys(properties) having count(*) > 10))
            else format('payload.%s: %s is not of type %s', left(f.name, 120), case
                when length(f.value::text) > 80 then left(f.value::text, 79) || '…' else f.value::text end,
                array_to_string(leasehold.json_types(properties -> f.name, schema), ' or '))
        end
        from jsonb_each(payload) as f (name, value)
        where case
            when not properties ? f.name then is_closed
            -- Null, and so not found, where any type is allowed.
            else not jsonb_typeof(f.value) = any (leasehold.json_types(properties -> f.name, schema)) and case
                -- JSON Schema calls 9.0 an integer.
                when jsonb_typeof(f.value) = 'number' and (f.value #>> '{}')::numeric % 1 = 0
                    then not 'integer' = any (leasehold.json_types(properties -> f.name, schema))
                else true
            end
        end
        limit 20
    ) problems;
    return array_to_string(found, '; ');
end $$;

-- Refuses payloads that do not fit the version that their job names. Drivers that have validated payloads skip this. A
-- loop: one statement over all jobs was planned at each call, because it is cheaper for a known number of them.
create function leasehold.require_valid(jobs leasehold.new_job[]) returns void language plpgsql stable as $$
declare
    job leasehold.new_job;
    known leasehold.definition_versions;
    number integer := 0;
    problems text;
begin
    foreach job in array jobs loop
        number := number + 1;
        if known.key is distinct from job.definition or known.version is distinct from job.version then
            select v.* into known
            from leasehold.definition_versions v where v.key = job.definition and v.version = job.version;
        end if;
        problems := leasehold.problems_of_fields(job.payload, known.schema);
        if problems is not null then
            perform leasehold.refuse(
                'LH-1001', format('%s: %s.', job.definition, problems),
                'Nothing was enqueued. Its schema: leasehold definitions show ' || job.definition,
                case when cardinality(jobs) > 1 then number::text else '' end);
        end if;
    end loop;
end $$;

create function leasehold.refuse_duplicate(tenant text, job leasehold.new_job, holder uuid) returns void
language plpgsql volatile as $$
declare
    key constant text := coalesce('"' || job.dedupe_key || '"', 'of this definition, tenant and payload');
    status constant text := coalesce(
        (select r.status from leasehold.job_records r where r.tenant_id = tenant and r.id = holder), 'kept no longer');
begin
    if job.on_conflict = 'replace' then
        perform leasehold.refuse(
            'LH-1010', format('dedupe key %s is held by job %s (%s). Nothing was replaced.', key, holder, status),
            'Only a job that still waits can be replaced.', holder::text);
    end if;
    perform leasehold.refuse(
        'LH-1010', format('dedupe key %s is held by job %s (%s). Nothing was enqueued.', key, holder, status),
        'Let that one do the work; on_conflict "return" answers with its id instead.', holder::text);
end $$;

-- ---------------------------------------------------------------------------------------------------------- placing

-- Fills in values from the definition and the clock. `at` becomes the due time.
create function leasehold.with_defaults(jobs leasehold.new_job[], now timestamptz) returns leasehold.new_job[]
language plpgsql stable as $$
#variable_conflict use_variable
begin
    return (select array_agg(
        row (
            n.definition, v.version, n.payload, n.id, coalesce(n.priority, v.priority),
            coalesce(n.max_attempts, v.max_attempts), null, coalesce(n.at, now + coalesce(n.delay, interval '0')),
            n.deadline, coalesce(n.dedupe, case when n.dedupe_key is not null then 'active' end), n.dedupe_key,
            n.dedupe_for, coalesce(n.on_conflict, 'return'), coalesce(n.source, 'manual'), n.source_ref,
            n.correlation_id, n.created_by
        )::leasehold.new_job order by n.ordinality)
    from unnest(jobs) with ordinality n
    join leasehold.definitions d on d.key = n.definition
    join leasehold.definition_versions v on v.key = d.key and v.version = coalesce(n.version, d.version));
end $$;

-- Inserts a job. Returns false if its key is taken.
create function leasehold.insert_job(
    tenant text, job leasehold.new_job, id uuid, seq bigint, hash bytea, now timestamptz
) returns boolean language plpgsql volatile as $$
begin
    insert into leasehold.jobs (
        id, seq, scheduled_for, queued_at, deadline, version, max_attempts, priority, ready, tenant_id, definition,
        status, payload, source, source_ref, correlation_id, created_by, dedupe_held, dedupe_hash, dedupe_key)
    values (
        insert_job.id, insert_job.seq, job.at, now, job.deadline, job.version, job.max_attempts, job.priority,
        job.at <= now, tenant, job.definition, 'queued', job.payload, job.source, job.source_ref, job.correlation_id,
        job.created_by, job.dedupe <> 'active', hash, job.dedupe_key)
    on conflict do nothing;
    return found;
end $$;

-- Replaces the values of a job that still waits. It keeps its id, its key and its history, and has all its attempts
-- before it. Waits for a worker that is just claiming the job.
create function leasehold.replace_waiting(
    tenant text, holder uuid, job leasehold.new_job, seq bigint, now timestamptz
) returns boolean language plpgsql volatile as $$
begin
    update leasehold.jobs j
    set definition = job.definition, version = job.version, payload = job.payload, priority = job.priority,
        max_attempts = job.max_attempts, scheduled_for = job.at, ready = job.at <= now, deadline = job.deadline,
        source = job.source, source_ref = job.source_ref, correlation_id = job.correlation_id,
        created_by = job.created_by, seq = replace_waiting.seq, forgiven = j.attempt, last_error = null,
        last_error_code = null
    where j.tenant_id = tenant and j.id = holder and j.status = 'queued';
    return found;
end $$;

-- Resolves a conflict with the job that holds the key. Returns true if that job was replaced, false if that job is the
-- answer, and null if it has released the key meanwhile: ask again.
create function leasehold.resolve_conflict(
    tenant text, job leasehold.new_job, holder uuid, seq bigint, now timestamptz
) returns boolean language plpgsql volatile as $$
begin
    if job.on_conflict = 'return' then
        return false;
    elsif job.on_conflict = 'replace' and leasehold.replace_waiting(tenant, holder, job, seq, now) then
        return true;
    elsif job.dedupe = 'active'
        and not exists (select from leasehold.jobs j where j.tenant_id = tenant and j.id = holder)
    then
        return null;
    end if;
    perform leasehold.refuse_duplicate(tenant, job, holder);
end $$;

-- Reserves an id that the caller supplied; it is used once, whatever became of its job. Returns true if it is reserved
-- now, for this call, and false if it was before, for the same request.
create function leasehold.reserve_id(tenant text, job leasehold.new_job) returns boolean
language plpgsql volatile as $$
declare
    hash constant bytea := leasehold.id_hash(job.id);
    request constant bytea := leasehold.request_hash(job.definition, job.payload);
    before bytea;
    taken boolean;
begin
    for round in 1..5 loop
        insert into leasehold.dedupe_holds (tenant_id, dedupe_hash, job_id, request_hash)
        values (tenant, hash, job.id, request) on conflict do nothing;
        taken := found;
        if taken then
            -- An id that we made, and that the caller of its job supplies again, was not held till now.
            select leasehold.request_hash(r.definition, r.payload) into before
            from leasehold.job_records r where r.tenant_id = tenant and r.id = job.id;
        else
            select h.request_hash into before
            from leasehold.dedupe_holds h where h.tenant_id = tenant and h.dedupe_hash = hash;
        end if;
        if found and before <> request then
            perform leasehold.refuse(
                'LH-1013',
                format('the id %s was used before, for another definition or payload. Nothing was enqueued.', job.id),
                'Bring a new id for a new request; repeat an old one unchanged.');
        elsif found then
            return false;
        elsif taken then
            return true;
        end if;
    end loop;
    raise exception using errcode = '40001', message = format('the id %s was taken and freed by others', job.id);
end $$;

-- Holds a key beyond its job's life. Returns the job that holds it already; null if the key is ours from now on. Looks
-- before it writes: a row that is only read makes no session wait.
create function leasehold.hold_key(
    tenant text, hash bytea, id uuid, expires_at timestamptz, now timestamptz
) returns uuid language plpgsql volatile as $$
declare
    holder uuid;
begin
    for round in 1..5 loop
        select h.job_id into holder from leasehold.dedupe_holds h
        where h.tenant_id = tenant and h.dedupe_hash = hash and (h.expires_at is null or h.expires_at > now);
        if found then
            return holder;
        end if;
        insert into leasehold.dedupe_holds as h (tenant_id, dedupe_hash, job_id, expires_at)
        values (tenant, hash, id, hold_key.expires_at)
        on conflict (tenant_id, dedupe_hash)
            do update set job_id = excluded.job_id, expires_at = excluded.expires_at where h.expires_at <= now;
        if found then
            return null;
        end if;
    end loop;
    raise exception using errcode = '40001', message = 'the dedupe key was taken and freed by others';
end $$;

-- Enqueues all jobs or none, and returns the job that answers each. All callers take locks in the order of ids and then
-- of keys, so that two batches can't wait for each other.
create function leasehold.place_jobs(tenant text, given leasehold.new_job[], wakes boolean, validate boolean)
returns table (number bigint, job_id uuid, created boolean, replaced boolean) language plpgsql volatile as $$
#variable_conflict use_variable
declare
    now constant timestamptz := leasehold.clock();
    jobs leasehold.new_job[];
    ids uuid[];
    seqs bigint[];
    -- By number, too: a key's hash, the job that is the answer, whether it is new, whether it was replaced, and the
    -- earlier job of this call with the same id.
    hashes bytea[];
    places uuid[];
    made boolean[];
    changed boolean[];
    same_as bigint[];
    earlier bigint;
    job leasehold.new_job;
    holder uuid;
    definitions text[];
    dues timestamptz[];
begin
    perform leasehold.require_tenant(tenant);
    if cardinality(given) = 0 then
        return;
    end if;
    perform leasehold.require_usable(given);
    perform leasehold.require_accepted(given);
    if not exists (select from leasehold.tenants t where t.id = tenant) then
        if (select s.strict_tenants from leasehold.settings s) then
            perform leasehold.refuse(
                'LH-1006',
                format('tenant %L was never registered, and strict tenants are on. Nothing was enqueued.', tenant),
                'Correct its name, or run: leasehold tenants --add ' || tenant);
        end if;
        declare
            timeout constant text := current_setting('lock_timeout');
        begin
            perform set_config('lock_timeout', '1ms', true);
            insert into leasehold.tenants (id, created_at) values (tenant, now) on conflict do nothing;
            perform set_config('lock_timeout', timeout, true);
        exception
            -- The caller's older snapshot can't see the row that another transaction has added since.
            when serialization_failure then null;
            -- Another transaction has added the row and is still open, maybe for hours: a later enqueue looks again.
            when lock_not_available then null;
        end;
    end if;
    jobs := leasehold.with_defaults(given, now);
    if validate then
        perform leasehold.require_valid(jobs);
    end if;
    ids := array(select coalesce(j.id, leasehold.uuid7()) from unnest(jobs) j);
    seqs := array(select nextval('leasehold.jobs_seq') from unnest(jobs) j);
    hashes := array(
        select case when j.dedupe is not null then leasehold.dedupe_hash(tenant, j) end from unnest(jobs) j);
    places := array_fill(null::uuid, array[cardinality(jobs)]);
    made := array_fill(false, array[cardinality(jobs)]);
    changed := made;
    same_as := array_fill(null::bigint, array[cardinality(jobs)]);

    for number in
        select n.ordinality from unnest(jobs) with ordinality n where n.id is not null
        order by leasehold.id_hash(n.id), n.ordinality
    loop
        job := jobs[number];
        if not leasehold.reserve_id(tenant, job) then
            if ids[earlier] = job.id then
                same_as[number] := earlier;
            else
                places[number] := job.id;
            end if;
        else
            earlier := number;
        end if;
    end loop;

    for number in
        select n.number from unnest(hashes, jobs) with ordinality as n (
            hash, definition, version, payload, id, priority, max_attempts, delay, at, deadline, dedupe, dedupe_key,
            dedupe_for, on_conflict, source, source_ref, correlation_id, created_by, number)
        where n.dedupe is not null order by n.dedupe = 'active', n.hash, n.number
    loop
        continue when places[number] is not null or same_as[number] is not null;
        job := jobs[number];
        for round in 1..5 loop
            holder := null;
            if job.dedupe <> 'active' then
                holder := leasehold.hold_key(tenant, hashes[number], ids[number], now + job.dedupe_for, now);
            end if;
            if holder is null
                and leasehold.insert_job(tenant, job, ids[number], seqs[number], hashes[number], now)
            then
                places[number] := ids[number];
                made[number] := true;
                exit;
            elsif holder is null then
                select j.id into holder from leasehold.jobs j
                where j.tenant_id = tenant and j.dedupe_hash = hashes[number] and not j.dedupe_held;
                continue when holder is null;
            end if;
            changed[number] := leasehold.resolve_conflict(tenant, job, holder, seqs[number], now);
            continue when changed[number] is null;
            places[number] := holder;
            -- The job was not created: its id is free for another request.
            delete from leasehold.dedupe_holds h
            where job.id is not null and h.tenant_id = tenant and h.dedupe_hash = leasehold.id_hash(job.id);
            exit;
        end loop;
        if places[number] is null then
            raise exception using errcode = '40001', message = 'a dedupe key was taken and freed by others';
        end if;
        if made[number] or changed[number] then
            definitions := definitions || job.definition;
            dues := dues || job.at;
        end if;
    end loop;

    with rest as (
        insert into leasehold.jobs as j (
            id, seq, scheduled_for, queued_at, deadline, version, max_attempts, priority, ready, tenant_id, definition,
            status, payload, source, source_ref, correlation_id, created_by)
        select n.new_id, n.seq, n.at, now, n.deadline, n.version, n.max_attempts, n.priority, n.at <= now, tenant,
               n.definition, 'queued', n.payload, n.source, n.source_ref, n.correlation_id, n.created_by
        from unnest(ids, seqs, places, same_as, jobs) as n (
            new_id, seq, place, same_as, definition, version, payload, id, priority, max_attempts, delay, at, deadline,
            dedupe, dedupe_key, dedupe_for, on_conflict, source, source_ref, correlation_id, created_by)
        where n.dedupe is null and n.place is null and n.same_as is null
        returning j.definition, j.scheduled_for
    )
    select array_agg(lane.definition), array_agg(lane.due) into definitions, dues
    from (
        select work.definition, min(work.due) as due
        from (select * from rest union all select * from unnest(definitions, dues)) as work (definition, due)
        group by work.definition
    ) lane;
    if wakes and definitions is not null then
        perform leasehold.wake(definitions, array_fill(tenant, array[cardinality(definitions)]), dues);
    end if;

    for number in select n.ordinality from unnest(same_as) with ordinality n (earlier) where n.earlier is not null loop
        places[number] := coalesce(places[same_as[number]], ids[same_as[number]]);
    end loop;
    return query
        select n.number, coalesce(n.place, n.id), n.made or n.place is null, n.changed
        from unnest(ids, places, made, changed) with ordinality as n (id, place, made, changed, number);
end $$;

-- ------------------------------------------------------------------------------------------------------------ public

-- Enqueues one job from SQL: `select * from leasehold.enqueue('acme', 'sync_folder', '{"path": "/"}')`.
create function leasehold.enqueue(
    tenant          text,
    key             text,
    payload         jsonb default '{}',
    priority        integer default null,
    max_attempts    integer default null,
    delay           interval default null,
    at              timestamptz default null,
    deadline        timestamptz default null,
    dedupe_key      text default null,
    dedupe          text default null,
    dedupe_for      interval default null,
    on_conflict     text default null,
    id              uuid default null,
    correlation_id  text default null,
    created_by      text default null,
    out job_id      uuid,
    out created     boolean,
    out replaced    boolean
) language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
begin
    perform leasehold.force_sync_commit();
    select p.job_id, p.created, p.replaced into job_id, created, replaced
    from leasehold.place_jobs(tenant, array[row (
        key, null, payload, id, priority, max_attempts, delay, at, deadline, dedupe, dedupe_key, dedupe_for,
        on_conflict, 'manual', null, correlation_id, created_by
    )::leasehold.new_job], wakes => true, validate => true) p;
end $$;

-- Enqueues jobs from a driver: an array of objects with the fields of leasehold.new_job. Returns one row for each, by
-- its number from 1 on; or a single row with the code of the refusal of all of them. Many calls of one transaction pass
-- wakes => false and call leasehold.wake at the end: otherwise its lock would be held from the first call on. A driver
-- that has validated the payloads passes validate => false.
create function leasehold.enqueue_jobs(
    tenant text, jobs jsonb, wakes boolean default true, validate boolean default true)
returns table (
    number bigint, job_id uuid, created boolean, replaced boolean, code text, happened text, fix text, about text
) language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
begin
    perform leasehold.force_sync_commit();
    return query
        select p.number, p.job_id, p.created, p.replaced, null::text, null::text, null::text, null::text
        from leasehold.place_jobs(
            tenant, array(select j from jsonb_populate_recordset(null::leasehold.new_job, jobs) j), wakes, validate) p;
exception
    when sqlstate 'L1000' or sqlstate 'L1001' or sqlstate 'L1002' or sqlstate 'L1005' or sqlstate 'L1006'
        or sqlstate 'L1010' or sqlstate 'L1013'
    then
        get stacked diagnostics
            code = returned_sqlstate, happened = message_text, fix = pg_exception_hint, about = pg_exception_detail;
        return next;
    when data_exception then
        -- A value that its column can't hold: a moment that is not a date, a number beyond 32 bits, an id that is not a
        -- UUID. Or `jobs` is not an array of objects.
        code := 'L1000';
        happened := format('LH-1000: the jobs can''t be read: %s.', left(sqlerrm, 300));
        fix := 'Nothing was enqueued. Correct the values.';
        about := '';
        return next;
end $$;

-- Wakes a worker for jobs that are committed, and were enqueued without a wake: after COMMIT PREPARED, since Postgres
-- refuses PREPARE TRANSACTION after a NOTIFY. That worker wakes the next one if there is more. Returns how many were
-- woken; 0 if all workers that could run them are awake.
create function leasehold.wake_workers(tenant text, key text) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
begin
    perform leasehold.require_tenant(tenant);
    return leasehold.wake_for_one(key, tenant, null);
end $$;

revoke execute on function leasehold.enqueue, leasehold.enqueue_jobs, leasehold.wake_workers from public;
