-- Adds a trigger, and tells schedulers when it fires; a trigger of the code that exists is left as it is.
with t as (
    insert into leasehold.triggers (
        id, tenant_id, label, enabled, kind, event_name, event_filter, dedupe_window, trailing_run, cron, every, anchor,
        zone, catch_up, catch_up_cap, spread, cursor_at, cursor_local, next_fire_at, tzdata, definition, payload_template,
        origin, created_by, created_at, updated_at
    )
    select :trigger::uuid, :tenant::text, :label, :enabled, :kind, :event_name, :event_filter::jsonb, :dedupe_window,
           :trailing_run, :cron, :every, :anchor, :zone, :catch_up, :catch_up_cap, :spread, :cursor_at::timestamptz,
           :cursor_local, :next_fire_at::timestamptz, :tzdata, :definition, :payload_template::jsonb, :origin,
           :created_by, now, now
    from leasehold.clock() as now
    on conflict (id) do nothing
    returning *
)
select include(trigger_columns), include(announce_fire) as announced from t
