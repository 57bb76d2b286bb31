-- One migration at a time, for the length of its transaction.
select pg_advisory_xact_lock(hashtextextended('leasehold' || ':migrate', 0))
