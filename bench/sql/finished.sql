-- $1 jobs that ended within the last weeks, one in a hundred of them badly, of $2 tenants.
insert into leasehold.jobs_done (
    id, tenant_id, definition, version, attempt, max_attempts, forgiven, priority, scheduled_for, queued_at, started_at,
    finished_at, prune_after, worker_id, dedupe_held, status, payload, source, last_error, last_error_code
)
select pg_temp.uuid7((extract(epoch from ended) * 1000)::bigint),
       'tenant-' || lpad((n % $2::integer)::text, 5, '0'),
       'bench', 1, 1, 5, 0, 100, ended, ended, ended, ended,
       case when not bad then ended + interval '30 days' end,
       '00000000-0000-4000-8000-000000000001', false,
       case when bad then 'dead_letter' else 'succeeded' end,
       jsonb_build_object('number', 0, 'sent', 0, 'text', 'a few words, as jobs have them'), 'manual',
       case when bad then 'RuntimeError: it did not go well' end, case when bad then 'RuntimeError' end
from generate_series(0, $1::bigint - 1) n
cross join lateral (select now() - interval '20 days' + n * interval '20 days' / $1 as ended, n % 100 = 0 as bad) each
