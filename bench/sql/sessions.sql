-- Lists the processes of a database's sessions, without this one.
select pid from pg_stat_activity
where datname = $1 and backend_type = 'client backend' and pid <> pg_backend_pid()
