-- Lists every definition in its current version.
select d.key, d.version, d.active, d.declared, d.overrides, d.revision, v.base, v.description, v.schema,
       leasehold.bounded(v.timeout) as timeout, v.max_attempts, v.backoff, v.priority, v.retention, v.on_exhausted,
       v.durable_claims
from leasehold.definitions d join leasehold.definition_versions v on v.key = d.key and v.version = d.version
order by d.key
