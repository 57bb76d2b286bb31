-- Makes a version that a definition once had the current one again.
update leasehold.definitions set version = :version, updated_at = leasehold.clock() where key = :key
