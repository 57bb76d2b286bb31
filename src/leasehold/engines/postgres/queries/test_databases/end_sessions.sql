-- Ends all other client sessions of this database. Returns how many.
select count(pg_terminate_backend(pid)) from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend';
