-- Pauses a scope, or resumes it where the reason is null. Wakes for what was held.
with changed as (
    insert into leasehold.limits (kind, key, paused_at, paused_until, pause_reason, paused_by)
    select :kind, :key, case when :reason::text is not null then now end, :until::timestamptz, :reason::text,
           :by::text
    from leasehold.clock() as now
    where :kind = 'tenant' or exists (select from leasehold.definitions where key = :key)
    on conflict (kind, key) do update
        set paused_at = excluded.paused_at, paused_until = excluded.paused_until, pause_reason = excluded.pause_reason,
            paused_by = excluded.paused_by
    returning kind, key
)
select leasehold.wake_held(array_agg(kind), array_agg(key)) from changed having count(*) > 0
