-- Sessions whose open transaction holds a lock on a table of the schema, the oldest transaction first. A role without
-- pg_read_all_stats does not see since when another role's transaction is open.
select a.pid, a.usename::text as role, coalesce(nullif(a.application_name, ''), 'unnamed') as application, a.state,
       floor(extract(epoch from clock_timestamp() - a.xact_start))::bigint as seconds
from pg_stat_activity a
where a.pid <> pg_backend_pid() and exists (
    select from pg_locks l join pg_class c on c.oid = l.relation
    where l.pid = a.pid and l.granted and l.database = (select oid from pg_database where datname = current_database())
      and c.relnamespace = to_regnamespace('leasehold')
)
order by a.xact_start nulls last limit 5
