-- Appends log lines and progress of claims that still hold. Returns those claims. Touches no row of jobs.
with said as materialized (
    select * from unnest(
        :tenants::text[], :jobs::uuid[], :attempts::integer[], :workers::uuid[], :batches::bigint[],
        :numbers::integer[], :kinds::text[], :texts::text[], :progresses::real[]
    ) as s (tenant_id, job_id, attempt, worker_id, claim_batch, number, kind, text, progress)
),
held as materialized (
    select s.* from said s
    cross join lateral (
        select from leasehold.jobs j
        where j.tenant_id = s.tenant_id and j.id = s.job_id and j.attempt = s.attempt and j.worker_id = s.worker_id
          and j.claim_batch = s.claim_batch
        limit 1
    ) j
),
kept as (
    insert into leasehold.job_lines (tenant_id, job_id, attempt, number, at, kind, text, progress)
    select tenant_id, job_id, attempt, number, now, kind, text, progress
    from held cross join leasehold.clock() as now
    on conflict do nothing
)
select distinct tenant_id, job_id as id, attempt, worker_id, claim_batch from held
