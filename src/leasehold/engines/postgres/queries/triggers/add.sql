-- Adds a trigger, and tells schedulers when it fires; a trigger of the code that exists is left as it is. With strict
-- tenants, one of a tenant that was never registered is not added; code may be deployed before its tenant is registered.
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
    where :origin::text = 'code' or :tenant::text = ''
       or not coalesce((select s.strict_tenants from leasehold.settings s), false)
       or exists (select from leasehold.tenants known where known.id = :tenant::text)
    on conflict (id) do nothing
    returning *
)
select include(trigger_columns), include(announce_fire) as announced from t
