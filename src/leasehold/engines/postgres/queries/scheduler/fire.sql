-- Enqueues the jobs of fires, each on its own, and records the decisions. A fire time that is decided is left out.
with decision as materialized (
    select f.*, (select leasehold.clock()) as now
    from unnest(
             :triggers::uuid[], :tenants::text[], :fire_ats::timestamptz[], :kinds::text[], :fires::integer[],
             :reasons::text[], :whys::text[], :jobs::text[]
         ) as f (trigger_id, tenant_id, fire_at, kind, fires, reason, why, jobs)
    -- The row of the trigger is locked: no other scheduler decides about it meanwhile. A join and a range instead of NOT
    -- EXISTS and equality: a plan made while the table was empty would read all of it for each fire.
    left join lateral (
        select d.id from leasehold.trigger_decisions d
        where d.trigger_id = f.trigger_id and d.fire_at between f.fire_at and f.fire_at
          and d.tenant_id = any (array[f.tenant_id])
        order by d.fire_at, d.tenant_id limit 1
    ) decided on true
    where decided.id is null
),
-- A refusal undoes this one enqueue only, and is told by the decision.
placed as materialized (
    select decision.*, job.job_id, job.code, job.happened
    from decision
    left join lateral (
        select answer.job_id, answer.code, answer.happened
        from leasehold.enqueue_jobs(decision.tenant_id, decision.jobs::jsonb, false, false) answer
        where decision.jobs is not null
    ) job on true
)
insert into leasehold.trigger_decisions as d (
    trigger_id, tenant_id, fire_at, kind, fires, reason, why, job_id, decided_at
)
select trigger_id, tenant_id, fire_at,
       case when code is null then kind when code = 'L1005' then 'skipped' else 'error' end,
       fires,
       case code when 'L1005' then 'inactive_definition' when 'L1002' then 'unknown_definition'
                 when 'L1006' then 'unknown_tenant' when 'L1001' then 'invalid_payload'
                 else case when code is null then reason else 'refused' end end,
       left(coalesce(happened, why), 1000), job_id, now
from placed
returning d.trigger_id, d.tenant_id, d.fire_at, d.kind, d.job_id
