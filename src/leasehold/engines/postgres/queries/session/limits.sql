-- Limits for the transaction that was just begun in such a session.
select set_config('lock_timeout', '0', true), set_config('statement_timeout', cast(:milliseconds as text), true)
