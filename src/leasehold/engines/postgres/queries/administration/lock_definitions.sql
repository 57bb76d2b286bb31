-- One sync at a time, for the length of its transaction.
select pg_advisory_xact_lock(hashtextextended('leasehold' || ':definitions', 0))
