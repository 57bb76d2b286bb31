-- Definitions as they were in these versions.
select v.key, v.version, v.description, v.schema, leasehold.bounded(v.timeout) as timeout, v.max_attempts,
       v.backoff, v.priority, v.retention, v.on_exhausted, v.durable_claims
from unnest(:keys::text[], :versions::integer[]) as wanted (key, version)
join leasehold.definition_versions v on v.key = wanted.key and v.version = wanted.version
