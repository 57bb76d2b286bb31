-- Sets the limits of a scope. Wakes for what a lower one held back.
with changed as (
    insert into leasehold.limits (kind, key, max_running, rate_count, rate_period, capped_at)
    select :kind, :key, :max_running, :rate_count, :rate_period, now from leasehold.clock() as now
    where :kind = 'tenant' or exists (select from leasehold.definitions where key = :key)
    on conflict (kind, key) do update
        set max_running = excluded.max_running, rate_count = excluded.rate_count, rate_period = excluded.rate_period,
            capped_at = excluded.capped_at, running_from = null
    returning kind, key
)
select leasehold.wake_held(array_agg(kind), array_agg(key)) from changed having count(*) > 0
