-- True if no producer is in flight. A statement of its own, so that no round trip happens while the lock is held.
select pg_try_advisory_xact_lock(leasehold.sleep_key())
