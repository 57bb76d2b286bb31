-- Replaces the overrides of a definition, and makes the version that has them current. Wakes for what was held.
with changed as (
    update leasehold.definitions
    set version = :version, overrides = :overrides::jsonb, revision = revision + 1, active = :active,
        updated_at = leasehold.clock()
    where key = :key
    returning key
)
select count(*), leasehold.wake_held(array_agg('definition'::text), array_agg(key)) from changed
