-- Answers with one row if this is the session that was opened, with its settings, and with none behind a pooler.
select where pg_backend_pid() = :pid and current_setting('leasehold_session.kind', true) = 'direct'
