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
    fan_out_at        timestamptz,                       -- the fire time whose jobs are being enqueued, tenant by tenant
    fan_out_after     text collate "C",                  -- the last tenant that has its job of that fire

    definition        text collate "C" not null references leasehold.definitions,
    payload_template  jsonb not null default '{}',
    paused_at         timestamptz,
    paused_until      timestamptz check (isfinite(paused_until)),
    pause_reason      text,
    origin            text not null check (origin in ('code', 'data')), -- one of the code has an id made of its label
    version           integer not null default 1 check (version >= 1),
    created_by        text,
    created_at        timestamptz not null,
    updated_at        timestamptz not null,
    deleted_at        timestamptz,

    constraint tenant_is_named check (length(tenant_id) <= 100),
    constraint texts_are_bounded check (
        length(label) between 1 and 200 and length(event_name) <= 200 and length(cron) <= 250 and length(zone) <= 100
        and length(pause_reason) <= 1000 and length(created_by) <= 1000 and length(cursor_local) <= 40
        and length(fan_out_after) <= 100
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
                             last_fire_at, next_fire_at, fan_out_at, fan_out_after) = 0
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
