-- Replaces the rule of a trigger that was not changed since, and tells schedulers. With :reset a schedule begins at the
-- new cursor; otherwise it keeps its place, which a scheduler may move at the same moment. The row's own pause decides
-- when it fires: a pause does not change the version, and may have begun or ended since the trigger was read.
with t as (
    update leasehold.triggers t
    set label = :label, enabled = :enabled, event_name = :event_name, event_filter = :event_filter::jsonb,
        dedupe_window = :dedupe_window, trailing_run = :trailing_run, cron = :cron, every = :every, anchor = :anchor,
        zone = :zone, catch_up = :catch_up, catch_up_cap = :catch_up_cap, spread = :spread, definition = :definition,
        payload_template = :payload_template::jsonb, kind = :kind,
        cursor_at = case when :reset::boolean then :cursor_at::timestamptz else t.cursor_at end,
        cursor_local = case when :reset::boolean then :cursor_local else t.cursor_local end,
        last_fire_at = case when :kind = 'event' then null else t.last_fire_at end,
        next_fire_at = case when not :enabled::boolean then null
                            when not :reset::boolean then t.next_fire_at
                            when :next_fire_at::timestamptz is null then null
                            when t.paused_at is not null and t.paused_until is null then null
                            else greatest(:next_fire_at::timestamptz, t.paused_until) end,
        tzdata = case when :reset::boolean then :tzdata else t.tzdata end,
        fan_out_at = case when :reset::boolean then null else t.fan_out_at end,
        fan_out_after = case when :reset::boolean then null else t.fan_out_after end,
        version = t.version + 1, updated_at = leasehold.clock(), deleted_at = null
    where t.tenant_id = :tenant::text and t.id = :trigger::uuid and t.version = :seen
      and (t.deleted_at is null or :restore::boolean)
    returning t.*
)
select include(trigger_columns), include(announce_change) as announced from t
