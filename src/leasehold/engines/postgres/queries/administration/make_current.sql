-- Makes a version of a definition current, as code declares it.
update leasehold.definitions set version = :version, declared = true, updated_at = leasehold.clock() where key = :key
