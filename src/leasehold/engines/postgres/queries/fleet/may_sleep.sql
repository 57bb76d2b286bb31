-- Counts a sleep. Returns whether no producer is in flight. A statement of its own, so that no round trip happens while
-- the lock is held, and the sleeper's row exists before its sleep is counted.
select leasehold.may_sleep(:definitions::text[])
