-- Finds matching jobs among the next ones of an error group: it looks at :scan at most.
--
-- The order names the group, which is the same for all: where policies stand, the planner does not see that, and would
-- read the jobs by their ids.
with looked as materialized (
    select j.id, j.attempt, j.status, j.finished_at, j.definition, j.source, j.correlation_id, j.queued_at
    from leasehold.jobs_done j
    where j.tenant_id = :tenant and j.status in ('failed', 'dead_letter') and include(error_group) = :error_group::bytea
      and j.id <= :up_to::uuid
    order by include(error_group) desc, j.id desc limit :scan
),
matching as materialized (
    select j.id, j.attempt, coalesce(j.finished_at > :began::timestamptz, false) as later
    from looked j
    where j.status = any (:statuses::text[]) and :due::boolean is not false and include(operation_filter)
    order by j.id desc limit :limit
)
select array(select id from matching order by id desc) as ids,
       array(select attempt from matching order by id desc) as attempts,
       array(select later from matching order by id desc) as laters,
       (select count(*) from looked) as looked,
       (select id from looked order by id limit 1) as last
