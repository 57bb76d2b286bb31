-- Shows, as long as this session lives, that the worker listens.
select pg_advisory_lock_shared(leasehold.listener_key(:worker))
