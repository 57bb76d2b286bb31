-- Registers a definition, or adds a version; makes it current if `current` is true.
with registered as (
    insert into leasehold.definitions (key, version, declared, created_at, updated_at)
    select :key, :version, :declared, now, now from leasehold.clock() as now
    on conflict (key) do update
        set version = case when :current then excluded.version else definitions.version end,
            declared = definitions.declared or excluded.declared, updated_at = excluded.updated_at
    returning updated_at
)
insert into leasehold.definition_versions (
    key, version, description, schema, timeout, max_attempts, backoff, priority, retention, on_exhausted,
    durable_claims, base, created_at
)
select :key, :version, :description, :schema::jsonb, :timeout::interval, :max_attempts, :backoff::jsonb, :priority,
       :retention::jsonb, :on_exhausted, :durable_claims, :base::integer, updated_at
from registered
