-- Makes an older version of a definition current again.
update leasehold.definitions set version = :version, updated_at = leasehold.clock() where key = :key
