-- Takes the lock under which one sync runs at a time, until its transaction ends.
select pg_advisory_xact_lock(hashtextextended('leasehold' || ':definitions', 0))
