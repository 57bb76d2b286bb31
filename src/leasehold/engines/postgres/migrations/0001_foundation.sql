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
-- The fence of an attempt is (tenant_id, id, attempt, worker_id). `attempt` only ever goes up; `worker_id` is unique
-- per boot and set exactly while the job runs, so the fence needs no further word about status. A job's lease is the
-- lease of its worker's row: one heartbeat renews all.
--
-- Tenant comes first in every key: no tenant can find out, by a conflict, which ids or keys another one uses.
-- There are no foreign keys on the hot table: two cost a third of the enqueue rate; enqueue validates instead.
--
-- Names that order an index compare by bytes (collate "C"): the same order everywhere, which no upgrade of a C library
-- can change under an index.
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

-- ---------------------------------------------------------------------------------------------------- who and what

create table leasehold.tenants (
    id          text collate "C" primary key check (length(id) between 1 and 100),
    created_at  timestamptz not null
);

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
    created_at    timestamptz not null,
    primary key (key, version)
);

-- A row only for a tenant or definition that has a limit or a pause.
create table leasehold.limits (
    kind          text not null check (kind in ('tenant', 'definition')),
    key           text collate "C" not null,
    max_running   integer check (max_running >= 1),
    rate_count    integer check (rate_count >= 1),
    rate_period   interval,
    paused_at     timestamptz,
    paused_until  timestamptz,
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
    scheduled_for        timestamptz not null,
    queued_at            timestamptz not null,
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
    constraint ready_is_queued check (not ready or status = 'queued')
) with (
    fillfactor = 85,
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.2
);

create index jobs_ready on leasehold.jobs (definition, tenant_id, priority, seq) where ready;
create index jobs_future on leasehold.jobs (definition, scheduled_for) where status = 'queued' and not ready;
create index jobs_running on leasehold.jobs (definition, tenant_id, worker_id) where status = 'running';
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
    status       text not null check (status in ('succeeded', 'failed', 'timeout', 'canceled', 'crashed', 'snoozed')),
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

-- A job as people see it, wherever it is.
create view leasehold.job_records as
select j.tenant_id, j.id, j.definition, j.version, j.status,
       j.status <> 'queued' or j.scheduled_for <= (select leasehold.clock()) as due,
       j.priority, j.payload, j.attempt, j.max_attempts, j.forgiven, j.scheduled_for, j.queued_at, j.started_at,
       null::timestamptz as finished_at, j.deadline, j.worker_id, w.lease_expires_at, j.cancel_requested_at,
       null::jsonb as result, j.last_error, j.last_error_code, j.dedupe_key, j.source, j.source_ref,
       j.correlation_id, j.created_by
from leasehold.jobs j left join leasehold.workers w on w.id = j.worker_id
union all
select d.tenant_id, d.id, d.definition, d.version, d.status,
       true,
       d.priority, d.payload, d.attempt, d.max_attempts, d.forgiven, d.scheduled_for, d.queued_at, d.started_at,
       d.finished_at, d.deadline, d.worker_id, null, d.cancel_requested_at,
       d.result, d.last_error, d.last_error_code, d.dedupe_key, d.source, d.source_ref,
       d.correlation_id, d.created_by
from leasehold.jobs_done d;

-- The newest jobs of a tenant that fit a filter. Ids are time-ordered (uuid7) unless the caller brought one. It is
-- planned as a part of the statement that asks, with that one's values: a filter that is null costs nothing.
create function leasehold.found(
    tenant text, below uuid, active text[], running boolean, succeeded boolean, unusual text[], definitions text[],
    source text, correlation_id text, due boolean, tried boolean, created_after timestamptz,
    created_before timestamptz, most bigint
) returns setof uuid language sql stable as $$
    select matching.id
    from (
        (select j.id from leasehold.jobs j
         where j.tenant_id = found.tenant and j.id < found.below and j.status = any (found.active)
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
               and j.id < found.below and found.due is not false
               and (found.definitions is null or j.definition = any (found.definitions))
               and (found.source is null or j.source = found.source)
               and (found.correlation_id is null or j.correlation_id = found.correlation_id)
               and (found.tried is null or found.tried = (j.attempt > 0))
               and (found.created_after is null or j.queued_at >= found.created_after)
               and (found.created_before is null or j.queued_at < found.created_before)
             order by j.worker_id
         ) j
         where found.running
         order by j.id desc limit found.most)
        union all
        (select d.id from leasehold.jobs_done d
         where d.tenant_id = found.tenant and d.id < found.below and d.status = 'succeeded' and found.succeeded
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
             where d.tenant_id = found.tenant and d.id < found.below and d.status = wanted.status
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

-- Wakes for work that has come up: the n-th job is of definitions[n], for tenants[n], due at dues[n]. A null tenant
-- stands for one that only those can be sure to serve who serve all; a null due time for now. One wake for each sleeper
-- that is needed, not a herd: a sleeper that can run several of them is woken once. Returns how many were woken.
create function leasehold.wake(definitions text[], tenants text[], dues timestamptz[]) returns integer
language plpgsql volatile as $$
#variable_conflict use_variable
declare
    sleeper leasehold.sleepers;
    woken integer := 0;
begin
    if coalesce(cardinality(definitions), 0) = 0 then
        return 0;
    end if;
    -- Whoever goes to sleep after this sees our job or finds this lock taken. It is held until we commit.
    perform pg_advisory_xact_lock_shared(leasehold.sleep_key());
    if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
        -- An old snapshot can't see who went to sleep since.
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
    return woken;
end $$;

-- From now on until we commit, whoever goes to sleep finds this lock taken. True: and nobody sleeps who serves this
-- definition, whatever our snapshot says. In this order, which a CASE keeps: a sleep that begins after the lock was
-- taken, begins after the job can be seen, or is refused. It is put in place where it is called.
create function leasehold.nobody_sleeps(definition text) returns boolean language sql volatile as $$
    select case when pg_advisory_xact_lock_shared(leasehold.sleep_key()) is null then true
           else pg_sequence_last_value(leasehold.sleeps_begun(definition))
              = pg_sequence_last_value(leasehold.sleeps_over(definition)) end
$$;

-- A worker's row is there; it counts its sleep, and only then looks whether a producer is in flight. A producer that
-- comes later sees the count.
create function leasehold.may_sleep(definitions text[]) returns boolean language plpgsql volatile as $$
begin
    perform nextval(leasehold.sleeps_begun(one.definition))
    from (select min(d.key) from unnest(definitions) as d (key) group by leasehold.share_of(d.key)) as one (definition);
    return pg_try_advisory_xact_lock(leasehold.sleep_key());
end $$;

-- Wakes for work in one lane, as nearly every enqueue brings it.
create function leasehold.wake_for_one(definition text, tenant text, due timestamptz) returns integer
language plpgsql volatile as $$
#variable_conflict use_variable
declare
    begun bigint;
begin
    if leasehold.nobody_sleeps(definition) then
        return 0;
    end if;
    -- Each a statement of its own: the looks that follow have younger snapshots than the lock and the count.
    begun := pg_sequence_last_value(leasehold.sleeps_begun(definition));
    if current_setting('transaction_isolation') <> 'read committed' or exists (
        select from leasehold.sleepers s where leasehold.can_run(s, definition, tenant, due)
    ) then
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
) returns boolean language sql immutable parallel safe as $$
    select exists (
        select from unnest(definitions, tenants, dues) as w (definition, tenant, due)
        where leasehold.can_run(sleeper, w.definition, w.tenant, w.due)
    )
$$;

-- What is left when this sleeper takes what it can; all null when that is everything.
create function leasehold.unserved(
    sleeper leasehold.sleepers, inout definitions text[], inout tenants text[], inout dues timestamptz[]
) language sql immutable parallel safe as $$
    select array_agg(w.definition), array_agg(w.tenant), array_agg(w.due)
    from unnest(definitions, tenants, dues) as w (definition, tenant, due)
    where not leasehold.can_run(sleeper, w.definition, w.tenant, w.due)
$$;

create function leasehold.has_work(definition text, tenant text) returns boolean language sql stable as $$
    select exists (
        select from leasehold.jobs j
        where j.ready and j.definition = has_work.definition and j.tenant_id = has_work.tenant
        order by j.priority, j.seq limit 1
    )
$$;

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

-- Wakes for what was held in these scopes. The lock comes before any look, as in wake(), which takes it again.
create function leasehold.wake_held(kinds text[], keys text[]) returns integer language plpgsql volatile as $$
begin
    perform pg_advisory_xact_lock_shared(leasehold.sleep_key());
    return (
        select leasehold.wake(array_agg(lane.definition), array_agg(lane.tenant), array_agg(lane.due))
        from unnest(kinds, keys) as scope (kind, key)
        cross join lateral leasehold.lanes_of(scope.kind, scope.key) lane
    );
end $$;

-- Where nothing is capped, nobody waits for room: then a finish need not gather whose it has freed. Volatile, so that it
-- also sees a cap that was set after the finish began.
create function leasehold.has_caps() returns boolean language sql volatile as $$
    select exists (select from leasehold.limits where max_running is not null)
$$;

-- What ended may have freed a capped scope.
create function leasehold.wake_for_freed(tenants text[], definitions text[]) returns integer language sql volatile as $$
    select leasehold.wake_held(array_agg(capped.kind), array_agg(capped.key))
    from (
        select l.kind, l.key from unnest(tenants) as t (key)
        join leasehold.limits l on l.kind = 'tenant' and l.key = t.key and l.max_running is not null
        union all
        select l.kind, l.key from unnest(definitions) as d (key)
        join leasehold.limits l on l.kind = 'definition' and l.key = d.key and l.max_running is not null
    ) capped
    having count(*) > 0
$$;

-- --------------------------------------------------------------------------------------------- effects of handlers

-- Ends a claim as succeeded within the transaction that its handler writes in: both are kept, or neither. One JSON object
-- is all it takes, since every driver writes parameters in its own way. The answer:
--     finished   and kept, if the transaction is
--     fenced     the claim is lost, or its worker's seat: roll back
--     ended      this is not the transaction that was begun for the claim: its handler has ended that one
-- It runs as its owner: whoever a handler connects as needs no rights on these tables, but has to be allowed to call it.
create function leasehold.finish_within(claim jsonb) returns text language plpgsql volatile
security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
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
