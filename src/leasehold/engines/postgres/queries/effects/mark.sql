-- Marks a transaction as the one that was begun for a claim; the mark ends with it, however it ends.
select set_config('leasehold_effects.claim', :mark, true)
