-- Deletes ended jobs whose retention is over, with their attempts, once their lines are gone. Returns how many jobs.
with old as materialized (
    select d.tenant_id, d.id, sha256('\x00'::bytea || convert_to('id:' || d.id::text, 'UTF8')) as id_hash
    from leasehold.jobs_done d
    where d.prune_after <= (select leasehold.clock())
    order by d.prune_after limit :limit
    for update skip locked
),
-- A job with lines waits for prune_lines.sql, which deletes a bounded number of them at a time.
without_lines as materialized (
    select old.* from old
    -- A join instead of NOT EXISTS: a plan made while job_lines was empty would then read all of it.
    left join lateral (
        select l.number from leasehold.job_lines l
        where l.tenant_id = old.tenant_id and l.job_id = old.id
        order by l.attempt, l.number limit 1
    ) line on true
    where line.number is null
),
-- Ranges instead of plain equality: see finish.sql.
jobs as (
    delete from leasehold.jobs_done d using without_lines old
    where d.tenant_id = any (array[old.tenant_id]) and d.id between old.id and old.id
    returning d.id
),
attempts as (
    delete from leasehold.job_attempts a using without_lines old
    where a.tenant_id = any (array[old.tenant_id]) and a.job_id between old.id and old.id
),
named as (
    delete from leasehold.dedupe_holds h using without_lines old
    where h.tenant_id = any (array[old.tenant_id]) and h.dedupe_hash between old.id_hash and old.id_hash
)
select count(*) from jobs
