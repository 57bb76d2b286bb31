-- Registers a definition, or its next version.
with registered as (
    insert into leasehold.definitions (key, version, created_at, updated_at)
    select :key, :version, now, now from leasehold.clock() as now
    on conflict (key) do update set version = excluded.version, updated_at = excluded.updated_at
    returning key, version, updated_at
)
insert into leasehold.definition_versions (
    key, version, description, schema, timeout, max_attempts, backoff, priority, retention, on_exhausted,
    durable_claims, created_at
)
select :key, :version, :description, :schema::jsonb, :timeout::interval, :max_attempts, :backoff::jsonb, :priority,
       :retention::jsonb, :on_exhausted, :durable_claims, updated_at
from registered
