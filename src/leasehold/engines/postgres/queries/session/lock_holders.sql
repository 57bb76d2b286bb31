-- Lists the sessions that hold the advisory lock of this name. A prepared transaction that holds it has no session.
select a.pid, a.usename::text as role, coalesce(nullif(a.application_name, ''), 'unnamed') as application
from pg_locks l left join pg_stat_activity a on a.pid = l.pid
where l.locktype = 'advisory' and l.granted and l.objsubid = 1
  and l.database = (select oid from pg_database where datname = current_database())
  and (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended('leasehold' || :name::text, 0)
order by a.pid limit 5
