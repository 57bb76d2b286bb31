-- Removes a session of a browser, and returns it.
delete from leasehold.console_sessions s where s.hash = :hash::bytea
returning s.kind, s.token, s.expires_at, s.expires_at > leasehold.clock() as live
