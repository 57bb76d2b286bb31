-- $1 workers with a lease of a day; they serve $2 definitions.
insert into leasehold.workers (id, host, pid, version, slots, definitions, started_at, last_seen_at, lease_expires_at)
select ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, 'host-' || n, n, 'bench', 10,
       array(select case place when 0 then 'bench' else 'bench-' || place end
             from generate_series(0, $2::integer - 1) place),
       now(), now(), now() + interval '1 day'
from generate_series(1, $1::integer) n
