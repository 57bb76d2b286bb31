-- Moves jobs that came due into their lanes: jobs of the definitions served, of any tenant. Wakes other workers for
-- tenants that this worker does not serve.
with moment as materialized (
    select leasehold.clock() as now
),
due as materialized (
    select job.ctid
    from unnest(:definitions::text[]) as served (definition)
    cross join lateral (
        select j.ctid from leasehold.jobs j
        where j.status = 'queued' and not j.ready and j.definition = served.definition
          and j.scheduled_for >= coalesce(:due_from::timestamptz, '-infinity')
          and j.scheduled_for <= (select now from moment)
        order by j.scheduled_for limit :limit
        for update skip locked
    ) job
),
promoted as (
    update leasehold.jobs j set ready = true, seq = nextval('leasehold.jobs_seq')
    from due where j.ctid = due.ctid
    returning j.definition, j.tenant_id, j.scheduled_for
),
foreign_lane as (
    select definition, tenant_id, min(scheduled_for) as due from promoted
    where tenant_id <> all (:tenants::text[])
    group by definition, tenant_id
)
select (select count(*) from promoted) as promoted,
       (select leasehold.wake(array_agg(definition), array_agg(tenant_id), array_agg(due)) from foreign_lane) as woken
