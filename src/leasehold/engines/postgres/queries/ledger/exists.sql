-- False: nothing was ever migrated here.
select to_regclass('leasehold.migrations') is not null
