-- Lets a definition take new jobs and start waiting ones, or holds both. Wakes for what was held.
with changed as (
    update leasehold.definitions set active = :active, updated_at = leasehold.clock() where key = :key returning key
)
select count(*), leasehold.wake_held(array_agg('definition'::text), array_agg(key)) from changed
