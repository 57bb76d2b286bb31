-- $1 queued jobs of $2 tenants, the first of which is number $3, and $4 definitions; each job's number is its tenant's.
insert into leasehold.jobs (
    id, tenant_id, definition, version, priority, max_attempts, scheduled_for, queued_at, ready, status, payload, source
)
select pg_temp.uuid7((extract(epoch from now()) * 1000)::bigint + n / 100),
       'tenant-' || lpad(owner::text, 5, '0'),
       case place when 0 then 'bench' else 'bench-' || place end,
       1, 100, 5, now(), now(), true, 'queued',
       jsonb_build_object('number', owner, 'sent', 0, 'text', 'a few words, as jobs have them'), 'manual'
from generate_series(0, $1::bigint - 1) n
cross join lateral (select $3::integer + n % $2::integer as owner, n / $2::integer % $4::integer as place) lane
