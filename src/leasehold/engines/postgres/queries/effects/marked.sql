-- What this transaction is marked as.
select current_setting('leasehold_effects.claim', true)
