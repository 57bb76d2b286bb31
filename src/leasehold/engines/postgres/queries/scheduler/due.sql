-- Locks schedules whose time has come, the longest overdue first. One that another scheduler has locked is left to it, as
-- are those in the version that this process could not read.
with moment as materialized (
    select now from leasehold.clock() as now
)
select include(trigger_columns), t.fan_out_at, t.fan_out_after, (select now from moment) as now,
       d.version as definition_version, d.active as definition_active
from leasehold.triggers t
join leasehold.definitions d on d.key = t.definition
where t.next_fire_at <= (select now from moment)
  and (:only::uuid is null or t.id = :only::uuid)
  and format('%s:%s', t.id, t.version) <> all (:left::text[])
order by t.next_fire_at limit :limit
for update of t skip locked
