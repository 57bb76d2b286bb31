-- Tells whether a session of this database waits for a lock.
select exists (
    select from pg_locks l join pg_stat_activity a using (pid) where a.datname = current_database() and not l.granted
);
