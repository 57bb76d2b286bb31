-- Finds matching jobs among the next ones that have not ended: it looks at :scan at most.
with looked as materialized (
    select j.id, j.attempt, j.status, j.scheduled_for, j.definition, j.source, j.correlation_id, j.queued_at
    from leasehold.jobs j
    where j.tenant_id = :tenant and j.id <= :up_to::uuid
    order by j.id desc limit :scan
),
matching as materialized (
    select j.id, j.attempt, coalesce(j.queued_at > :began::timestamptz, false) as later
    from looked j cross join leasehold.clock() as now
    where j.status = any (:statuses::text[])
      and (:due::boolean is null or :due = (j.status <> 'queued' or j.scheduled_for <= now))
      and include(operation_filter)
    order by j.id desc limit :limit
)
select array(select id from matching order by id desc) as ids,
       array(select attempt from matching order by id desc) as attempts,
       array(select later from matching order by id desc) as laters,
       (select count(*) from looked) as looked,
       (select id from looked order by id limit 1) as last
