-- $1 tenants, as bench/job.py names them.
insert into leasehold.tenants (id, created_at)
select 'tenant-' || lpad(n::text, 5, '0'), now() from generate_series(0, $1::integer - 1) n
on conflict do nothing
