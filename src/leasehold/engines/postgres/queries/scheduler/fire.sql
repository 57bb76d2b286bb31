-- Enqueues the jobs of fires and records the decisions. A fire time that is decided is left out.
with moment as materialized (
    select leasehold.clock() as now, leasehold.force_sync_commit()
),
decision as materialized (
    select f.*, moment.now
    from moment, unnest(
             :triggers::uuid[], :tenants::text[], :fire_ats::timestamptz[], :kinds::text[], :fires::integer[],
             :reasons::text[], :whys::text[], :jobs::text[], :ids::uuid[]
         ) with ordinality as f (trigger_id, tenant_id, fire_at, kind, fires, reason, why, jobs, new_id, number)
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
-- The jobs of fires have no keys, so that no other job can conflict with them: those of active definitions and known
-- tenants are inserted together. One job by leasehold.enqueue_jobs takes 1.7 ms, one of 200 takes 0.1 ms.
plain as materialized (
    select decision.number, decision.new_id, decision.tenant_id, decision.now, j.definition, j.payload, j.source,
           j.source_ref, j.created_by, j.at, v.version, v.priority, v.max_attempts
    from decision
    cross join lateral jsonb_populate_record(null::leasehold.new_job, decision.jobs::jsonb -> 0) j
    cross join lateral (
        select d.key from leasehold.definitions d
        where d.key between j.definition and j.definition and d.active order by d.key limit 1
    ) d
    cross join lateral (
        select v.version, v.priority, v.max_attempts from leasehold.definition_versions v
        where v.key = d.key and v.version between j.version and j.version order by v.key, v.version limit 1
    ) v
    cross join lateral (
        select t.id from leasehold.tenants t
        where t.id between decision.tenant_id and decision.tenant_id and t.deleted_by is null order by t.id limit 1
    ) t
    where decision.jobs is not null
),
inserted as (
    insert into leasehold.jobs (
        id, scheduled_for, queued_at, version, max_attempts, priority, ready, tenant_id, definition, status, payload,
        source, source_ref, created_by
    )
    select p.new_id, p.at, p.now, p.version, p.max_attempts, p.priority, p.at <= p.now, p.tenant_id, p.definition,
           'queued', p.payload, p.source, p.source_ref, p.created_by
    from plain p order by p.number
),
-- The others are enqueued each on its own: a refusal undoes this one only, and is told by the decision. They are chosen
-- first, because a condition beside a function does not keep it from being called.
other as materialized (
    select decision.number, decision.tenant_id, decision.jobs
    from decision left join plain on plain.number = decision.number
    where decision.jobs is not null and plain.number is null
),
enqueued as materialized (
    select other.number, answer.job_id, answer.code, answer.happened
    from other cross join lateral leasehold.enqueue_jobs(other.tenant_id, other.jobs::jsonb, false, false) answer
),
placed as materialized (
    select decision.*, coalesce(plain.new_id, enqueued.job_id) as job_id, enqueued.code, enqueued.happened
    from decision
    left join plain on plain.number = decision.number
    left join enqueued on enqueued.number = decision.number
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
returning d.trigger_id, d.tenant_id, d.fire_at, d.kind, d.job_id, d.decided_at
