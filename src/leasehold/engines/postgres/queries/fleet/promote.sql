-- Moves jobs that came due into their lanes; wakes others for what this worker does not serve.
with due as materialized (
    select ctid from leasehold.jobs
    where status = 'queued' and not ready and scheduled_for <= (select leasehold.clock())
    order by scheduled_for limit :limit
    for update skip locked
),
promoted as (
    update leasehold.jobs j set ready = true, seq = nextval('leasehold.jobs_seq')
    from due where j.ctid = due.ctid
    returning j.definition, j.tenant_id, j.scheduled_for
),
foreign_lane as (
    select definition, tenant_id, min(scheduled_for) as due from promoted
    where not (definition = any (:definitions::text[])
               and (:tenants::text[] is null or tenant_id = any (:tenants::text[])))
    group by definition, tenant_id
)
select (select count(*) from promoted) as promoted,
       (select leasehold.wake(array_agg(definition), array_agg(tenant_id), array_agg(due)) from foreign_lane) as woken
