-- Moves waiting jobs in time or priority. Wakes who can run them.
with moment as materialized (
    select leasehold.clock() as now
),
moved as (
    update leasehold.jobs j
    set scheduled_for = coalesce((select now from moment) + :delay::interval, j.scheduled_for),
        ready = coalesce(:delay::interval <= interval '0', j.ready),
        priority = coalesce(:priority::smallint, j.priority),
        seq = nextval('leasehold.jobs_seq')
    where j.tenant_id = :tenant and j.id = any (:jobs::uuid[]) and j.status = 'queued'
    returning j.id, j.definition, j.scheduled_for
),
woken as materialized (
    select leasehold.wake(array_agg(definition), array_agg(:tenant::text), array_agg(due))
    from (select definition, min(scheduled_for) as due from moved group by definition) lane
)
select id, 'rescheduled' as answer from moved cross join woken
union all
select j.id, 'not_waiting' from leasehold.jobs j
where j.tenant_id = :tenant and j.id = any (:jobs::uuid[]) and j.status <> 'queued'
union all
select d.id, 'not_waiting' from leasehold.jobs_done d
where d.tenant_id = :tenant and d.id = any (:jobs::uuid[])
