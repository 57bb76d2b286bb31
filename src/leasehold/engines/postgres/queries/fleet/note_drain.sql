-- Notes that a worker drains from now on.
update leasehold.workers set drains_since = leasehold.clock() where id = :worker and drains_since is null
