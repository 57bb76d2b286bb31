-- Reads the newest migration that was applied.
select version, needs from leasehold.migrations order by version desc limit 1
