-- The whole engine stands on these tables.
--
-- A job lives in `jobs` while it is unfinished and in `jobs_done` afterwards. The hot table stays small, its vacuum
-- cheap, and "active" dedupe is active by construction (29.2k against 22.5k jobs/s for one table; with 5M finished,
-- claim p99 10.7 against 49 ms). Finishing is one statement that deletes here and inserts there.
--
-- A ready job is found through its lane (definition, tenant): a worker that serves one definition never walks over
-- another's backlog, and tenants take turns. What is not yet due is kept out of the lanes (`ready` false) and is
-- promoted by whoever claims next; to everyone outside both are `queued`.
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
-- In these files the schema is called leasehold; its real name is put in when they are loaded.

-- The only clock. Tests replace this function to move time.
create function leasehold.clock() returns timestamptz language sql volatile parallel safe
    as $$ select clock_timestamp() $$;

-- What was acknowledged must survive a crash: called by every statement whose success is a promise, so that a database
-- or a caller with synchronous_commit off does not break it. Stronger settings are left alone.
create function leasehold.durably() returns text language sql volatile as $$
    select case current_setting('synchronous_commit') when 'off' then set_config('synchronous_commit', 'on', true) end
$$;

-- --------------------------------------------------------------------------------------------------------- bounds

-- As in model/bounds.py. A moment within them can be read by every client, and subtracted from: Python's calendar
-- ends with the year 9999, and until PostgreSQL 16 nothing can be subtracted from infinity.
create function leasehold.earliest() returns timestamptz language sql immutable parallel safe
    as $$ select timestamptz '1900-01-01 00:00:00+00' $$;

create function leasehold.latest() returns timestamptz language sql immutable parallel safe
    as $$ select timestamptz '9999-01-01 00:00:00+00' $$;

-- The moment that is shown for one that is stored, since people may write anything into a table. Beyond the bounds it is
-- the nearest one outside of them, so that a reader can tell. Written as a constant, since a difference is stable:
-- the planner would put the function in place nowhere, and plan it five times for each claim.
create function leasehold.shown(moment timestamptz) returns timestamptz language sql immutable parallel safe as $$
    select case when moment >= leasehold.latest() then leasehold.latest()
                when moment < leasehold.earliest() then timestamptz '1899-12-31 23:59:59+00'
                else moment end
$$;

-- The length that is read for one that is stored, so that every client can hold it: Python can't hold '-3000000 years',
-- or the '-infinity' of PostgreSQL 17.
create function leasehold.bounded(length interval) returns interval language sql immutable parallel safe
    as $$ select greatest(least(length, interval '3650 days'), interval '-3650 days') $$;

-- Until when an ended job is kept; null: for ever, which also stands for a retention that this release can't read.
create function leasehold.prune_after(retention jsonb, status text, now timestamptz) returns timestamptz
language sql immutable parallel safe as $$
    select case when retention ->> status ~ '^[0-9]{1,30}(\.[0-9]{1,30})? seconds$'
        then now + least(split_part(retention ->> status, ' ', 1)::numeric, 3153600000) * interval '1 second'
    end
$$;

-- ---------------------------------------------------------------------------------------------------- who and what

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

-- Immutable: a job pins the version it was enqueued under.
create table leasehold.definition_versions (
    key           text collate "C" not null references leasehold.definitions,
    version       integer not null,
    description   text not null,
    schema        jsonb,
    timeout       interval not null,
    max_attempts  integer not null check (max_attempts >= 1),
    backoff       jsonb not null,
    priority      smallint not null,
    retention     jsonb not null,
    on_exhausted  text not null check (on_exhausted in ('dead_letter', 'failed')),
    durable_claims  boolean not null,                    -- a claim is on disk before its worker gets it
    created_at    timestamptz not null,
    primary key (key, version)
);

-- A row only for a tenant or definition that has a limit or a pause.
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

-- Keys that are held beyond their job's life: for a window, or for ever. An id that a caller brought is held here
-- too: between the two tables of jobs no unique key could keep it from being used twice. Such a row knows what was
-- asked for under the id, so that another request under it is refused.
create table leasehold.dedupe_holds (
    tenant_id     text collate "C" not null,
    dedupe_hash   bytea not null,
    job_id        uuid not null,
    request_hash  bytea,
    expires_at    timestamptz,
    primary key (tenant_id, dedupe_hash)
);

create index dedupe_holds_expiry on leasehold.dedupe_holds (expires_at) where expires_at is not null;

-- Every attempt that did not succeed. A succeeded one is read off its job's row (a command's, with its exit code, is
-- here), since a row at each claim and an update at each finish cost 40 % more WAL and CPU; a manual retry writes it
-- down before it takes that row away.
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

-- Who sleeps, for what, and until when; `wakes_at` null: wake me for anything. Each sleep is a new row, so that going
-- to sleep never waits for a producer that holds an older one.
create table leasehold.sleepers (
    id           bigint generated always as identity primary key,
    worker_id    uuid not null,
    definitions  text[] not null,
    tenants      text[],
    wakes_at     timestamptz
) with (autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 0);

create index sleepers_worker on leasehold.sleepers (worker_id);

-- How many sleeps have begun, and how many of those are known to be over: while the two are equal nobody sleeps, and a
-- producer need not look. Sequences, since those are read as they are now, by any snapshot and without a scan (figures in
-- docs/decisions/0014). By shares of definitions: a worker that sleeps for others than mine
-- is none of my business, mostly.
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

-- A job as people see it, wherever it is. Its moments are ones that can be shown.
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

-- The newest jobs of a tenant that fit a filter. Ids are time-ordered (uuid7) unless the caller brought one. It is
-- planned as a part of the statement that asks, with that one's values: a filter that is null costs nothing. An id may
-- be any UUID: `up_to` is included, so that the greatest one is found; up to null there is nothing.
create function leasehold.found(
    tenant text, up_to uuid, active text[], running boolean, succeeded boolean, unusual text[], definitions text[],
    source text, correlation_id text, due boolean, tried boolean, created_after timestamptz,
    created_before timestamptz, most bigint
) returns setof uuid language sql stable as $$
    select matching.id
    from (
        (select j.id from leasehold.jobs j
         where j.tenant_id = found.tenant and j.id <= found.up_to and j.status = any (found.active)
           and cardinality(found.active) > 0
           and (found.due is null
                or found.due = (j.status <> 'queued' or j.scheduled_for <= (select leasehold.clock())))
           and (found.definitions is null or j.definition = any (found.definitions))
           and (found.source is null or j.source = found.source)
           and (found.correlation_id is null or j.correlation_id = found.correlation_id)
           and (found.tried is null or found.tried = (j.attempt > 0))
           and (found.created_after is null or j.queued_at >= found.created_after)
           and (found.created_before is null or j.queued_at < found.created_before)
         order by j.id desc limit found.most)
        union all
        -- Asked for without those that wait, the few that run are found by their own index, not among them.
        (select j.id from leasehold.definitions f
         cross join lateral (
             select j.id from leasehold.jobs j
             where j.status = 'running' and j.definition = f.key and j.tenant_id = found.tenant
               and j.id <= found.up_to and found.due is not false
               and (found.definitions is null or j.definition = any (found.definitions))
               and (found.source is null or j.source = found.source)
               and (found.correlation_id is null or j.correlation_id = found.correlation_id)
               and (found.tried is null or found.tried = (j.attempt > 0))
               and (found.created_after is null or j.queued_at >= found.created_after)
               and (found.created_before is null or j.queued_at < found.created_before)
             order by j.started_at
         ) j
         where found.running
         order by j.id desc limit found.most)
        union all
        (select d.id from leasehold.jobs_done d
         where d.tenant_id = found.tenant and d.id <= found.up_to and d.status = 'succeeded' and found.succeeded
           and found.due is not false
           and (found.definitions is null or d.definition = any (found.definitions))
           and (found.source is null or d.source = found.source)
           and (found.correlation_id is null or d.correlation_id = found.correlation_id)
           and (found.tried is null or found.tried = (d.attempt > 0))
           and (found.created_after is null or d.queued_at >= found.created_after)
           and (found.created_before is null or d.queued_at < found.created_before)
         order by d.id desc limit found.most)
        union all
        -- The few that did not succeed have an index by status: one short scan for each.
        (select d.id from unnest(found.unusual) as wanted (status)
         cross join lateral (
             select d.id from leasehold.jobs_done d
             where d.tenant_id = found.tenant and d.id <= found.up_to and d.status = wanted.status
               and d.status <> 'succeeded' and found.due is not false
               and (found.definitions is null or d.definition = any (found.definitions))
               and (found.source is null or d.source = found.source)
               and (found.correlation_id is null or d.correlation_id = found.correlation_id)
               and (found.tried is null or found.tried = (d.attempt > 0))
               and (found.created_after is null or d.queued_at >= found.created_after)
               and (found.created_before is null or d.queued_at < found.created_before)
             order by d.id desc limit found.most
         ) d)
    ) matching
    order by matching.id desc limit found.most
$$;

-- ----------------------------------------------------------------------------------------------------------- wakes

create function leasehold.channel(worker uuid) returns text language sql immutable parallel safe
    as $$ select 'leasehold' || ':' || replace(worker::text, '-', '') $$;

-- Everybody listens here too: for producers who can't see who sleeps.
create function leasehold.channel_for_all() returns text language sql immutable parallel safe
    as $$ select 'leasehold' || ':all' $$;

-- Whoever waits for a result listens here.
create function leasehold.channel_for_results() returns text language sql immutable parallel safe
    as $$ select 'leasehold' || ':ended' $$;

-- Producers hold it shared until they commit; a worker that gets it exclusively knows that nobody is in flight.
create function leasehold.sleep_key() returns bigint language sql immutable parallel safe
    as $$ select hashtextextended('leasehold' || ':sleep', 0) $$;

-- A worker's listening session holds it, shared: a new one need not wait for the server to notice that an old one is
-- gone. It ends with the session, even after kill -9.
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
    -- A worker that was evicted while a producer held its sleep, and so kept it from being removed, may stand still with
    -- its connection open: it would swallow the wake.
    if not exists (select from leasehold.workers w where w.id = worker) then
        return false;
    end if;
    -- Got it: nobody listens. The exception undoes the lock, so that a worker coming back never waits for us.
    if pg_try_advisory_xact_lock(leasehold.listener_key(worker)) then
        raise exception using errcode = 'LH001';
    end if;
    return true;
exception when sqlstate 'LH001' then
    return false;
end $$;

-- How long a producer waits for the lock of workers that go to sleep. They hold it for microseconds; any role that may
-- connect can take it, and keep it.
create function leasehold.longest_wait_for_sleepers() returns text language sql immutable parallel safe
    as $$ select '100ms' $$;

-- Takes the lock that a worker finds taken if it goes to sleep before we commit. False: somebody keeps it from us. Then
-- the caller notifies all: its NOTIFY reaches every listener at our commit, and a worker listens before it sleeps.
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

-- Wakes for work that has come up: the n-th job is of definitions[n], for tenants[n], due at dues[n]. A null tenant
-- stands for one that only those can be sure to serve who serve all; a null due time for now. One wake for each sleeper
-- that is needed, not a herd: a sleeper that can run several of them is woken once. Returns how many were woken.
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
    -- Whoever goes to sleep after this sees our job or finds this lock taken. It is held until we commit.
    if not leasehold.keeps_workers_awake()
        -- An old snapshot can't see who went to sleep since.
        or current_setting('transaction_isolation') not in ('read committed', 'read uncommitted')
    then
        perform pg_notify(leasehold.channel_for_all(), 'work');
        return 1;
    end if;
    -- Nobody who could run them sleeps: what follows would be four statements and a subtransaction to find that out.
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
        -- What is left may have a match that another producer holds. That one may roll back: notify, delete nothing.
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

-- The sleeper that was woken for a time to come may die before that time. So all listeners are told of it, in seconds
-- from now by the database's clock, and each that serves the definition sets a timer of its own, which costs no
-- statement. A sleeper that was not woken needs no word: its own timer wakes it before that time.
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

-- From now on until we commit, whoever goes to sleep finds this lock taken. True: and nobody sleeps who serves this
-- definition, whatever our snapshot says. In this order, which a CASE keeps: a sleep that begins after the lock was
-- taken, begins after the job can be seen, or is refused. False also if the lock is refused: then wake_for_one waits for
-- it. It is put in place where it is called.
create function leasehold.nobody_sleeps(definition text) returns boolean language sql volatile as $$
    select case when pg_try_advisory_xact_lock_shared(leasehold.sleep_key())
           then pg_sequence_last_value(leasehold.sleeps_begun(definition))
              = pg_sequence_last_value(leasehold.sleeps_over(definition))
           else false end
$$;

-- A worker's row is there; it counts its sleep, and only then looks whether a producer is in flight. A producer that
-- comes later sees the count. A dump reads sequences one after the other, so in a restored database more sleeps may be
-- over than have begun, and this sleep would look over; then none is noted as over. That is always safe: a smaller
-- number only makes producers look, and the next that finds no sleeper writes a true one.
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

-- Wakes for work in one lane, as nearly every enqueue brings it.
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
    -- Each a statement of its own: the looks that follow have younger snapshots than the lock and the count.
    begun := pg_sequence_last_value(leasehold.sleeps_begun(definition));
    if current_setting('transaction_isolation') <> 'read committed' then
        return leasehold.wake(array[definition], array[tenant], array[due]);
    end if;
    -- As wake() does, in one statement for each sleeper: an enqueue that wakes a worker mostly comes this far only.
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
    -- One is left that another producer holds.
    if exists (select from leasehold.sleepers s where leasehold.can_run(s, definition, tenant, due)) then
        return leasehold.wake(array[definition], array[tenant], array[due]);
    end if;
    -- Each row was there before it was counted. So none of all that are counted is left, and nobody need look again:
    -- unless it was we who took it away, who may yet roll back.
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
-- sleeper is awake, and before it sleeps again it finds that we are in flight. So a moment's wait saves a NOTIFY of our
-- own, which would queue up behind all the others, for a disk write each (figures in docs/decisions/0008). True: the hold
-- has ended, look again. False: nobody holds one, or for too long, as in anyone's long transaction.
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

-- What is left when this sleeper takes what it can; all null when that is everything.
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

-- Lanes with work in a scope that may start something again: its limit was raised, its pause ended, a job of it ended;
-- with when that is due, null for now. A definition's future jobs count, since whoever sleeps has not looked at those
-- of one that was held. Of its tenants, which may be very many, only those matter that some sleeper names.
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

-- Wakes for what was held in these scopes. The lock comes before any look, as in wake(), which takes it again. A session
-- keeps the plans of what it calls, so it may not read tables whole that were empty when those were made. The planner
-- counts a cost of 10 billion for a table that must be read whole, and would have each call compiled first: to set 70
-- limits took 90 s, and takes 1 s without that.
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

-- True if this tenant may start nothing now: it is paused, or at its cap.
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

-- Those of these definitions that may start something now: active, not paused, below their cap.
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

-- True if a ready job of this definition belongs to a tenant that may start it. Looks at 20 tenants at most, each by
-- one index probe: if those are all held, the answer is a guess, which costs a worker one claim in vain.
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

-- Ready lanes of the given definitions and tenants that another sleeper could run, without work that is held. A null
-- tenant means: some tenant's, for a sleeper that serves all of them. 500 lanes of named tenants are enough for one
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

-- A worker that has no room left, or that stops, passes its wake on: every ready lane that it serves gets a sleeper that
-- can run it. The worker itself is not asleep, so its own row goes first; one that a producer holds is left to that one.
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

-- True if something that this worker serves is ready and may start: an idle worker asks with each heartbeat, since the
-- worker that was woken for it may stand still.
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

-- Where nothing is capped, nobody waits for room: then a finish need not gather whose it has freed. Volatile, so that it
-- also sees a cap that was set after the finish began.
create function leasehold.has_caps() returns boolean language plpgsql volatile as $$
begin
    return exists (select from leasehold.limits where max_running is not null);
end $$;

-- What ended may have freed a capped scope. Null tenants: nothing was gathered, since nothing is capped.
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

-- Ends a claim as succeeded within the transaction that its handler writes in: both are kept, or neither. One JSON object
-- is all it takes, since every driver writes parameters in its own way. The answer:
--     finished   and kept, if the transaction is
--     fenced     the claim is lost, or its worker's seat: roll back
--     ended      this is not the transaction that was begun for the claim: its handler has ended that one
-- It runs as its owner: whoever a handler connects as needs no rights on these tables, but has to be allowed to call it.
create function leasehold.finish_within(claim jsonb) returns text language plpgsql volatile
security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    gone leasehold.jobs;
    moment timestamptz := leasehold.clock();
begin
    if current_setting('leasehold_effects.claim', true) is distinct from claim ->> 'mark' then
        return 'ended';
    end if;
    perform leasehold.durably();
    -- From here to the commit the job's row is locked. Whoever is stopped in between must not keep it so.
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
        id, scheduled_for, queued_at, started_at, finished_at, cancel_requested_at, deadline, prune_after, worker_id,
        version, attempt, max_attempts, forgiven, priority, tenant_id, definition, status, payload, result, source,
        source_ref, correlation_id, created_by, dedupe_held, dedupe_hash, dedupe_key, last_error, last_error_code
    )
    values (
        gone.id, gone.scheduled_for, gone.queued_at, gone.started_at, moment, gone.cancel_requested_at, gone.deadline,
        moment + make_interval(secs => (claim ->> 'keep')::float), gone.worker_id, gone.version, gone.attempt,
        gone.max_attempts, gone.forgiven, gone.priority, gone.tenant_id, gone.definition, 'succeeded', gone.payload,
        claim -> 'result', gone.source, gone.source_ref, gone.correlation_id, gone.created_by, gone.dedupe_held,
        gone.dedupe_hash, gone.dedupe_key, gone.last_error, gone.last_error_code
    );
    perform leasehold.wake_for_freed(array[gone.tenant_id], array[gone.definition]);
    if gone.awaited then
        perform pg_notify(leasehold.channel_for_results(), '');
    end if;
    return 'finished';
end $$;

-- Whoever knows the claim could end it: that is in logs.
revoke execute on function leasehold.finish_within from public;
