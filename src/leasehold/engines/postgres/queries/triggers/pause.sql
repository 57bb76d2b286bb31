-- Pauses a trigger, or resumes it if the reason is null, and tells schedulers. The time is that of a rule: if that was
-- changed since it was read, nothing is written.
with t as (
    update leasehold.triggers t
    set paused_at = case when :reason::text is not null then leasehold.clock() end,
        paused_until = :until::timestamptz, pause_reason = :reason::text,
        next_fire_at = case when t.enabled then :next_fire_at::timestamptz end,
        tzdata = case when t.cron is not null then :tzdata end
    where t.tenant_id = :tenant::text and t.id = :trigger::uuid and t.version = :seen and t.deleted_at is null
    returning t.*
)
select include(trigger_columns), include(announce_change) as announced from t
