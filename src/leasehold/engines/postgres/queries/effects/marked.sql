-- Reads the mark of this transaction.
select current_setting('leasehold_effects.claim', true)
