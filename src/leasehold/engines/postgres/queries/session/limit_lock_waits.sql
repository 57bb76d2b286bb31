-- Until the end of this transaction, no statement waits longer than this for a lock.
select set_config('lock_timeout', :timeout, true)
