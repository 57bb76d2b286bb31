-- Lifts a limit that only PostgreSQL 17 and newer know, in the session that was opened, and in no other.
select set_config(name, '0', false) from pg_settings
where name = 'transaction_timeout' and pg_backend_pid() = :pid
  and current_setting('leasehold_session.kind', true) = 'direct'
