-- Whether somebody in this database has waited for a lock for so long.
select exists (
    select from pg_locks l join pg_stat_activity a using (pid)
    where a.datname = current_database() and not l.granted and l.waitstart < clock_timestamp() - :patience::interval
);
