-- Tells whether this migration was applied.
select exists (select from leasehold.migrations where version >= :version)
