-- $1 jobs of $2 tenants and $3 definitions, as of a busy installation: the first tenant has a tenth of them, a fifth are
-- unfinished, one in two hundred of those runs, and the last definition but one has one in 10,000. The last has none.
with job as materialized (
    select pg_temp.uuid7((extract(epoch from made) * 1000)::bigint) as id, made,
           'tenant-' || lpad((case when drawn[1] % 10 = 0 then 0 else 1 + drawn[2] % ($2::integer - 1) end)::text, 5, '0')
               as tenant_id,
           case when drawn[3] % 10000 = 0 then 'bench-' || $3::integer - 2
                when drawn[3] % ($3::integer - 2) = 0 then 'bench'
                else 'bench-' || drawn[3] % ($3::integer - 2) end as definition,
           case when drawn[4] % 1000 = 0 then 'system' when drawn[4] % 10 = 1 then 'event'
                when drawn[4] % 10 < 4 then 'schedule' else 'manual' end as source,
           case when drawn[5] % 100 = 0 then 'order-' || n end as correlation_id,
           case when drawn[6] % 1000 = 0 then 'running' when drawn[6] % 5 = 0 then 'queued'
                when drawn[6] % 100 = 1 then 'dead_letter' when drawn[6] % 100 = 2 then 'canceled'
                else 'succeeded' end as status,
           drawn[7] % 20 as kind,
           jsonb_build_object('number', n, 'sent', 0, 'text', 'a few words, as jobs have them') as payload
    from generate_series(0, $1::bigint - 1) n
    cross join lateral (
        select now() - interval '20 days' + n * interval '20 days' / $1 as made,
               array(select mod(hashint8extended(n, seed) & 1073741823, 1000000) from generate_series(1, 7) seed) as drawn
    ) each
),
unfinished as (
    insert into leasehold.jobs (
        id, tenant_id, definition, version, priority, attempt, max_attempts, scheduled_for, queued_at, started_at, ready,
        status, worker_id, payload, source, correlation_id
    )
    select id, tenant_id, definition, 1, 100, case when kind = 1 or status = 'running' then 1 else 0 end, 5,
           case when kind in (0, 1) and status = 'queued' then now() + interval '1 day' else made end, made,
           case when status = 'running' then now() end, status = 'queued' and kind not in (0, 1), status,
           case when status = 'running' then '00000000-0000-4000-8000-000000000001'::uuid end, payload, source,
           correlation_id
    from job where status in ('queued', 'running')
)
insert into leasehold.jobs_done (
    id, tenant_id, definition, version, attempt, max_attempts, forgiven, priority, scheduled_for, queued_at, started_at,
    finished_at, prune_after, worker_id, dedupe_held, status, payload, source, correlation_id, last_error, last_error_code
)
select id, tenant_id, definition, 1, 1, 5, 0, 100, made, made, made, made,
       case when status <> 'dead_letter' then made + interval '30 days' end,
       '00000000-0000-4000-8000-000000000001', false, status, payload, source, correlation_id,
       case when status = 'dead_letter' then 'RuntimeError: it did not go well' end,
       case when status = 'dead_letter' then 'RuntimeError' end
from job where status not in ('queued', 'running')
