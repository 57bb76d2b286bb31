-- Triggers: rules that enqueue jobs, by a schedule or by an event; their decisions; and events.
--
-- A schedule fires in one transaction: its row is locked, its jobs are enqueued, the decisions are written and the row is
-- moved to its next fire. The lock and the unique keys of `trigger_decisions` make each (trigger, fire time, tenant) and
-- each (event, trigger) happen once, however many schedulers and workers run. No session lock is taken, so that all of it
-- works behind a pooler in transaction mode.
--
-- A scheduler looks at one index, which has an entry for each schedule that fires by itself. Whatever grows (decisions,
-- events) is reached by its keys and pruned in bounded batches.
--
-- The release before does not know these tables, and needs none of them.
-- needs: 0001

-- How long decisions and expanded events are kept.
alter table leasehold.settings
    add column trigger_history interval not null default interval '30 days'
        check (trigger_history between interval '0' and interval '3650 days');

create table leasehold.triggers (
    id                uuid primary key,
    tenant_id         text collate "C" not null,         -- empty: for all tenants, those that come later included
    label             text not null,
    enabled           boolean not null default true,
    kind              text not null check (kind in ('event', 'schedule')),

    event_name        text collate "C",                  -- a dotted name; or one that ends with .*, for all names below
    event_filter      jsonb,
    dedupe_window     interval,                          -- from the enqueue on; null: every event makes a job
    trailing_run      boolean not null default false,    -- once more at the end of a window in which events were dropped

    cron              text,
    every             interval,
    anchor            timestamptz,                       -- from which `every` counts
    zone              text,
    catch_up          text check (catch_up in ('skip', 'latest', 'all')),
    catch_up_cap      integer,
    spread            interval,                          -- the jobs of one fire for all tenants come due within it
    cursor_at         timestamptz,                       -- up to here, included, every fire time is decided
    cursor_local      text,                              -- the same as a local time, for crons with fixed times
    last_fire_at      timestamptz,                       -- the latest fire time that made jobs
    next_fire_at      timestamptz,                       -- when a scheduler looks at it next; null: it does not fire
    tzdata            text collate "C",                  -- the release that gave next_fire_at of a cron, as in 2026b
    fan_out_at        timestamptz,                       -- the fire time whose jobs are being enqueued, tenant by tenant
    fan_out_after     text collate "C",                  -- the last tenant that has its job of that fire

    definition        text collate "C" not null references leasehold.definitions,
    payload_template  jsonb not null default '{}',
    paused_at         timestamptz,
    paused_until      timestamptz check (isfinite(paused_until)),
    pause_reason      text,
    origin            text not null check (origin in ('code', 'data')), -- see declared_id for that of code
    version           integer not null default 1 check (version >= 1),
    created_by        text,
    created_at        timestamptz not null,
    updated_at        timestamptz not null,
    deleted_at        timestamptz,

    constraint tenant_is_named check (length(tenant_id) <= 100),
    constraint texts_are_bounded check (
        length(label) between 1 and 200 and length(event_name) <= 200 and length(cron) <= 250 and length(zone) <= 100
        and length(pause_reason) <= 1000 and length(created_by) <= 1000 and length(cursor_local) <= 40
        and length(fan_out_after) <= 100 and length(tzdata) <= 40
    ),
    constraint documents_are_bounded check (
        jsonb_typeof(payload_template) = 'object' and leasehold.size_of(payload_template) <= 262144
        and coalesce(leasehold.size_of(event_filter) <= 65536, true)
    ),
    constraint lengths_are_bounded check (
        coalesce(every between interval '1 second' and interval '3650 days', true)
        and coalesce(spread between interval '0' and interval '1 day', true)
        and coalesce(dedupe_window between interval '0' and interval '3650 days', true)
        and coalesce(catch_up_cap between 1 and 1000, true)
    ),
    constraint moments_are_bounded check (
        isfinite(anchor) is not false and isfinite(cursor_at) is not false and isfinite(last_fire_at) is not false
        and isfinite(next_fire_at) is not false and isfinite(fan_out_at) is not false
    ),
    constraint event_or_schedule check (case kind
        when 'event' then
            event_name is not null
            and num_nonnulls(cron, every, anchor, zone, catch_up, catch_up_cap, spread, cursor_at, cursor_local,
                             last_fire_at, next_fire_at, tzdata, fan_out_at, fan_out_after) = 0
        else
            num_nonnulls(event_name, event_filter, dedupe_window) = 0 and not trailing_run
            and num_nonnulls(cron, every) = 1 and (every is null) = (anchor is null)
            and num_nonnulls(zone, catch_up, catch_up_cap, cursor_at) = 4
    end),
    constraint only_a_live_schedule_fires check (next_fire_at is null or (enabled and deleted_at is null)),
    constraint pause_has_a_reason check ((paused_at is null) = (pause_reason is null)),
    constraint pause_ends check (paused_until is null or paused_at is not null)
) with (fillfactor = 70);

-- A schedule that waits for its next fire; one that is paused without an end, disabled or deleted has no entry.
create index triggers_due on leasehold.triggers (next_fire_at) where next_fire_at is not null;
-- Crons whose next fire was computed by an older tzdata are found by it.
create index triggers_of_tzdata on leasehold.triggers (tzdata, id) where cron is not null and next_fire_at is not null;
create index triggers_of_event on leasehold.triggers (tenant_id, event_name)
    where kind = 'event' and enabled and deleted_at is null;
create index triggers_of_tenant on leasehold.triggers (tenant_id, id) where deleted_at is null;
create index triggers_of_code on leasehold.triggers (definition) where origin = 'code' and deleted_at is null;

-- One decision of a trigger about one fire time or one event, for one tenant.
create table leasehold.trigger_decisions (
    id          bigint generated always as identity primary key,
    trigger_id  uuid not null,
    tenant_id   text collate "C" not null,
    fire_at     timestamptz,
    event_id    uuid,
    kind        text not null check (kind in ('fired', 'deduped', 'skipped', 'missed', 'error')),
    fires       integer not null default 1 check (fires >= 1), -- fire times that were missed; fire_at is the last one
    job_id      uuid,                                          -- the job that was made, or that holds the dedupe key
    reason      text check (length(reason) <= 100),            -- one of a few words
    why         text check (length(why) <= 1000),              -- for people
    decided_at  timestamptz not null,
    constraint fire_or_event check (num_nonnulls(fire_at, event_id) = 1)
);

-- Each fire time and each event is decided once. The first one also lists a schedule's decisions by fire time.
create unique index trigger_decisions_fire on leasehold.trigger_decisions (trigger_id, fire_at, tenant_id)
    where fire_at is not null;
create unique index trigger_decisions_event on leasehold.trigger_decisions (trigger_id, event_id)
    where event_id is not null;
create index trigger_decisions_of_trigger on leasehold.trigger_decisions (trigger_id, id);
create index trigger_decisions_prune on leasehold.trigger_decisions (decided_at);

-- An event is expanded once its triggers have decided about it: in the transaction that emits it, or by a worker.
create table leasehold.events (
    tenant_id       text collate "C" not null,
    id              uuid not null,
    name            text collate "C" not null check (length(name) between 1 and 200),
    data            jsonb not null check (jsonb_typeof(data) = 'object' and leasehold.size_of(data) <= 262144),
    correlation_id  text check (length(correlation_id) <= 1000),
    created_by      text check (length(created_by) <= 1000),
    emitted_at      timestamptz not null,
    expanded_at     timestamptz,
    primary key (tenant_id, id)
);

create index events_unexpanded on leasehold.events (emitted_at) where expanded_at is null;
create index events_prune on leasehold.events (expanded_at) where expanded_at is not null;

-- ------------------------------------------------------------------------------------------------------------- events
--
-- A driver emits in two steps, each a statement that is a transaction of its own or a part of its caller's. The first
-- one, write_event, writes the event if no trigger matches; otherwise it writes nothing and returns the triggers. The
-- driver renders their templates, and the second one, place_event, writes the event, its jobs and all decisions. Plain
-- SQL renders no templates: `emit` writes the event, and a worker expands it by the second step.

-- Returns every pattern that selects a name, as leasehold.model.event.patterns_of does.
create function leasehold.event_patterns(name text) returns text[] language sql immutable parallel safe as $$
    select array_prepend(name, array(
        select array_to_string(words[1:n], '.') || '.*'
        from string_to_array(name, '.') words, generate_series(1, cardinality(string_to_array(name, '.')) - 1) n))
$$;

-- Returns the live triggers of a tenant, and of all tenants, that select an event, as a JSON array; null if none does.
-- One that was made after the event does not.
create function leasehold.triggers_of(tenant text, name text, emitted_at timestamptz) returns text
language plpgsql stable as $$
declare
    patterns constant text[] := leasehold.event_patterns(name);
begin
    return (
        select jsonb_agg(jsonb_build_object(
            'id', t.id, 'tenant_id', t.tenant_id, 'label', t.label, 'event_name', t.event_name,
            'event_filter', t.event_filter, 'window', extract(epoch from t.dedupe_window), 'trailing', t.trailing_run,
            'definition', t.definition, 'payload_template', t.payload_template, 'origin', t.origin,
            'version', t.version, 'created_by', t.created_by, 'created_at', t.created_at, 'updated_at', t.updated_at,
            'paused', t.paused_at is not null, 'paused_until', t.paused_until, 'pause_reason', t.pause_reason,
            'definition_version', d.version, 'definition_active', d.active
        ))::text  -- in any order: for an order, the planner would read an index that has it, from end to end
        from unnest(array[tenant, '']) as owner (tenant_id)
        cross join unnest(patterns) as pattern (name)
        -- A range and an order instead of plain equality: a plan made while the table was empty would read all of it.
        cross join lateral (
            select * from leasehold.triggers t
            where t.tenant_id = owner.tenant_id and t.event_name between pattern.name and pattern.name
              and t.kind = 'event' and t.enabled and t.deleted_at is null
              and t.created_at <= triggers_of.emitted_at
            order by t.event_name limit 1000000
        ) t
        cross join lateral (
            select d.version, d.active from leasehold.definitions d where d.key = t.definition limit 1
        ) d
    );
end $$;

-- Inserts an event. Returns `created`; `repeated` if it is there already, because the call was repeated with its id; or
-- `refused` if another event has the id.
create function leasehold.insert_event(
    tenant text, id uuid, name text, data jsonb, correlation_id text, created_by text, emitted_at timestamptz,
    expanded_at timestamptz
) returns text language plpgsql volatile as $$
#variable_conflict use_variable
begin
    insert into leasehold.events (tenant_id, id, name, data, correlation_id, created_by, emitted_at, expanded_at)
    values (tenant, id, name, data, correlation_id, created_by, emitted_at, expanded_at)
    on conflict do nothing;
    if found then
        return 'created';
    end if;
    return coalesce(
        (select case when e.expanded_at is null then 'waiting' else 'repeated' end from leasehold.events e
         where e.tenant_id = tenant and e.id = insert_event.id and e.name = insert_event.name
           and e.data = insert_event.data),
        'refused');
end $$;

-- Writes an event that no trigger matches; otherwise writes nothing, and returns the triggers. `answer` is that of
-- insert_event. The driver has checked the name, and the tenant is known.
create function leasehold.write_event(
    tenant text, id uuid, name text, data jsonb, correlation_id text, created_by text,
    out emitted_at timestamptz, out triggers text, out answer text
) language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set plan_cache_mode = force_generic_plan as $$
begin
    emitted_at := leasehold.clock();
    triggers := leasehold.triggers_of(tenant, name, emitted_at);
    if triggers is null then
        perform leasehold.force_sync_commit();
        answer := leasehold.insert_event(
            tenant, id, name, data, correlation_id, created_by, emitted_at, emitted_at);
    end if;
end $$;

-- A job of an event by the number of its decision, and its answer: the job, whether it is new, or why it was refused.
create type leasehold.placed_job as (
    number bigint, job jsonb, job_id uuid, created boolean, code text, happened text
);

-- Enqueues jobs, all by one call; if that is refused, each by a call of its own, so that one refusal concerns one job.
create function leasehold.place_each(tenant text, given leasehold.placed_job[], wakes boolean)
returns leasehold.placed_job[] language plpgsql volatile as $$
declare
    placed leasehold.placed_job[];
begin
    if cardinality(given) = 0 then
        return given;
    end if;
    placed := array(
        select row (g.number, g.job, a.job_id, a.created, a.code, a.happened)::leasehold.placed_job
        from leasehold.enqueue_jobs(tenant, (select jsonb_agg(j.job order by j.ordinality)
                                             from unnest(given) with ordinality j), wakes, false) a
        left join unnest(given) with ordinality g on g.ordinality = a.number);
    if placed[1].code is null then
        return placed;
    end if;
    return array(
        select row (g.number, g.job, a.job_id, a.created, a.code, a.happened)::leasehold.placed_job
        from unnest(given) g
        cross join lateral leasehold.enqueue_jobs(tenant, jsonb_build_array(g.job), wakes, false) a);
end $$;

-- Writes the jobs and the decisions of an event, and the event itself; without a name, the event is one that waits to be
-- expanded. Returns a row with the answer of insert_event, and one for each decision; no row if another worker expands
-- it. `decisions` is an array of objects: trigger, kind, reason, why, job (as in enqueue_jobs) and trailing. A job that
-- is refused becomes an error of its own decision. The answer to a repeated call has the decisions of these triggers.
create function leasehold.place_event(
    tenant text, event uuid, name text, data jsonb, correlation_id text, created_by text, emitted_at timestamptz,
    decisions jsonb, wakes boolean
) returns table (trigger_id uuid, kind text, job_id uuid, reason text, why text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_variable
declare
    now constant timestamptz := leasehold.clock();
    placed leasehold.placed_job[];
    late leasehold.placed_job[];
    answer text := 'created';
begin
    perform leasehold.force_sync_commit();
    if name is null then
        perform from leasehold.events e
        where e.tenant_id = tenant and e.id = event and e.expanded_at is null for update skip locked;
        if not found then
            return;
        end if;
        update leasehold.events e set expanded_at = now where e.tenant_id = tenant and e.id = event;
    else
        answer := leasehold.insert_event(tenant, event, name, data, correlation_id, created_by, emitted_at, now);
    end if;
    return query select null::uuid, answer, null::uuid, null::text, null::text;
    if answer <> 'created' then
        return query
            select d.trigger_id, d.kind, d.job_id, d.reason, d.why
            from jsonb_array_elements(decisions) with ordinality g
            cross join lateral (
                select * from leasehold.trigger_decisions d
                where d.trigger_id = (g.value ->> 'trigger')::uuid and d.event_id = event and d.tenant_id = tenant
                limit 1
            ) d
            where answer = 'repeated'
            order by g.ordinality;
        return;
    end if;
    placed := leasehold.place_each(tenant, array(
        select row (d.ordinality, d.value -> 'job', null, null, null, null)::leasehold.placed_job
        from jsonb_array_elements(decisions) with ordinality d where jsonb_typeof(d.value -> 'job') = 'object'), wakes);
    -- Another job holds the key: with `trailing`, one more runs at the end of its window. The key of that one has the
    -- holder in it, so that there is one for each window.
    late := leasehold.place_each(tenant, array(
        select row (p.number, p.job || jsonb_build_object(
                   'at', h.expires_at, 'dedupe_key', (p.job ->> 'dedupe_key') || ':trailing:' || p.job_id,
                   -- In seconds, see enqueue_plain_jobs.sql; and a minute longer than the window.
                   'dedupe_for', make_interval(secs => 60 + extract(epoch from h.expires_at - now)::float8)
               ), null, null, null, null
               )::leasehold.placed_job
        from unnest(placed) p
        cross join lateral (select sha256(convert_to(p.job ->> 'dedupe_key', 'UTF8')) as hash) key
        cross join lateral (
            select h.job_id, h.expires_at from leasehold.dedupe_holds h
            where h.tenant_id = tenant and h.dedupe_hash between key.hash and key.hash
            order by h.dedupe_hash limit 1
        ) h
        where h.job_id = p.job_id and not p.created and p.code is null
          and (decisions -> (p.number - 1)::integer ->> 'trailing')::boolean
          and h.expires_at > now), wakes);
    return query
        insert into leasehold.trigger_decisions as d (
            trigger_id, tenant_id, event_id, kind, reason, why, job_id, decided_at)
        select (g.value ->> 'trigger')::uuid, tenant, event,
               case when p.code = 'L1005' then 'skipped' when p.code is not null then 'error'
                    when l.created then 'fired' when p.created is false then 'deduped'
                    else g.value ->> 'kind' end,
               case when p.code is null then g.value ->> 'reason'
                    else case p.code when 'L1005' then 'inactive_definition' when 'L1002' then 'unknown_definition'
                                     when 'L1006' then 'unknown_tenant' when 'L1001' then 'invalid_payload'
                                     else 'refused' end end,
               left(coalesce(
                   p.happened,
                   case when l.created then format('it runs after the dedupe window of job %s', p.job_id)
                        when l.job_id is not null then format('job %s runs after the dedupe window', l.job_id)
                        when p.created is false then format('job %s holds the dedupe key', p.job_id)
                        else g.value ->> 'why' end), 1000),
               coalesce(l.job_id, p.job_id), now
        from jsonb_array_elements(decisions) with ordinality g
        left join unnest(placed) p on p.number = g.ordinality
        left join unnest(late) l on l.number = g.ordinality and l.code is null
        order by g.ordinality
        returning d.trigger_id, d.kind, d.job_id, d.reason, d.why;
end $$;

-- Refuses an event as leasehold.model.event.NewEvent does.
create function leasehold.require_event(tenant text, name text, data jsonb, correlation_id text, created_by text)
returns void language plpgsql immutable as $$
declare
    problem text;
begin
    perform leasehold.require_tenant(tenant);
    if name is null or length(name) > 200 or name !~ '^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+){0,15}$' then
        perform leasehold.refuse(
            'LH-1000', format('%s is not the name of an event, which is 1 to 16 words with dots between them.',
                              coalesce(quote_literal(left(name, 120)), 'null')),
            'Nothing was emitted. Write it like provider.folder.updated.');
    end if;
    problem := coalesce(leasehold.problem_of_text('correlation_id', correlation_id),
                        leasehold.problem_of_text('created_by', created_by));
    if problem is not null then
        perform leasehold.refuse('LH-1000', format('the event can''t be emitted: %s.', problem),
                                 'Nothing was emitted. Correct the values.');
    end if;
    problem := leasehold.problem_of_payload(data);
    if problem is not null then
        perform leasehold.refuse(
            'LH-1001', format('the event can''t be emitted: %s', replace(problem, 'payload:', 'data:')),
            'Nothing was emitted. Correct its data.');
    end if;
end $$;

-- Adds a tenant at its first event, as place_jobs does, or refuses an unknown one if tenants are strict.
create function leasehold.require_known_tenant(tenant text) returns void language plpgsql volatile as $$
declare
    timeout constant text := current_setting('lock_timeout');
begin
    if exists (select from leasehold.tenants t where t.id = tenant) then
        return;
    elsif (select s.strict_tenants from leasehold.settings s) then
        perform leasehold.refuse(
            'LH-1006', format('tenant %L was never registered, and strict tenants are on. Nothing was emitted.', tenant),
            'Correct its name, or run: leasehold tenants --add ' || tenant);
    end if;
    perform set_config('lock_timeout', '1ms', true);
    insert into leasehold.tenants (id, created_at) values (tenant, leasehold.clock()) on conflict do nothing;
    perform set_config('lock_timeout', timeout, true);
exception
    -- Another transaction has added the row: it is still open, or younger than the caller's snapshot.
    when serialization_failure or lock_not_available then null;
end $$;

-- Emits an event from SQL: `select * from leasehold.emit('acme', 'list.created', '{"id": 7}')`. `expanded` tells
-- whether all is done: no trigger matches. Otherwise a worker makes the jobs after the commit. With an id of yours, the
-- same call repeated writes one event.
create function leasehold.emit(
    tenant          text,
    name            text,
    data            jsonb default '{}',
    correlation_id  text default null,
    created_by      text default null,
    id              uuid default null,
    out event_id    uuid,
    out expanded    boolean
) language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set plan_cache_mode = force_generic_plan as $$
declare
    now constant timestamptz := leasehold.clock();
begin
    perform leasehold.force_sync_commit();
    perform leasehold.require_event(tenant, name, data, correlation_id, created_by);
    perform leasehold.require_known_tenant(tenant);
    event_id := coalesce(id, leasehold.uuid7());
    expanded := leasehold.triggers_of(tenant, name, now) is null;
    case leasehold.insert_event(tenant, event_id, name, data, correlation_id, created_by, now,
                                case when expanded then now end)
        when 'refused' then
            perform leasehold.refuse(
                'LH-1013', format('the id %s was used before, for another event. Nothing was emitted.', event_id),
                'Bring a new id for a new event; repeat an old one unchanged.');
        when 'waiting' then
            expanded := false;
        when 'repeated' then
            expanded := true;
        else
            if not expanded then
                perform pg_notify(leasehold.channel_for_all(), 'event');
            end if;
    end case;
end $$;

revoke execute on function leasehold.write_event, leasehold.place_event, leasehold.emit from public;
