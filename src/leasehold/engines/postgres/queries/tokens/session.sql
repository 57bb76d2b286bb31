-- Reads a session of a browser by the hash of its secret.
select s.kind, s.token, s.expires_at from leasehold.console_sessions s
where s.hash = :hash::bytea and s.expires_at > leasehold.clock()
