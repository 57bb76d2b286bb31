-- The oldest transaction that keeps vacuum from removing rows of past jobs, if it is older than :tolerated, and how many
-- rows that concerns. A role without pg_read_all_stats sees its own sessions only, and all prepared transactions.
with moment as materialized (
    select leasehold.clock() as now
),
holder as (
    select a.xact_start as since,
           concat_ws(', ', format('process %s', a.pid), format('role %s', a.usename), nullif(a.application_name, ''),
                     a.state) as name
    from pg_stat_activity a
    where a.datname = current_database() and (a.backend_xmin is not null or a.backend_xid is not null)
      and a.backend_type = 'client backend' and a.query !~* '^\s*vacuum'  -- a vacuum holds back no other
    union all
    select p.prepared, format('prepared transaction %s, role %s', p.gid, p.owner) from pg_prepared_xacts p
    where p.database = current_database()
)
select holder.name, moment.now - holder.since as age, pg_stat_get_dead_tuples('leasehold.jobs'::regclass) as dead_rows
from moment left join holder on holder.since < moment.now - :tolerated::interval
order by holder.since limit 1
