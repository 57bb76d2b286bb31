-- Lists all versions of a definition, the newest first.
select v.key, v.version, v.description, v.schema, leasehold.bounded(v.timeout) as timeout, v.max_attempts,
       v.backoff, v.priority, v.retention, v.on_exhausted, v.durable_claims, v.base
from leasehold.definition_versions v
where v.key = :key
order by v.version desc
