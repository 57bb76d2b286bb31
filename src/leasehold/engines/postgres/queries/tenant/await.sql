-- Marks an unfinished job as awaited: its finish will notify.
update leasehold.jobs set awaited = true where tenant_id = :tenant and id = :job and not awaited
