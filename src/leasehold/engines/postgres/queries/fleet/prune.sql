-- Deletes ended jobs whose retention is over, with their attempts and lines. Returns how many jobs.
with old as materialized (
    select tenant_id, id, sha256('\x00'::bytea || convert_to('id:' || id::text, 'UTF8')) as id_hash
    from leasehold.jobs_done
    where prune_after <= (select leasehold.clock())
    order by prune_after limit :limit
    for update skip locked
),
-- Why not plain equality: see finish.sql.
jobs as (
    delete from leasehold.jobs_done d using old
    where d.tenant_id = any (array[old.tenant_id]) and d.id between old.id and old.id
    returning d.id
),
attempts as (
    delete from leasehold.job_attempts a using old
    where a.tenant_id = any (array[old.tenant_id]) and a.job_id between old.id and old.id
),
lines as (
    delete from leasehold.job_lines l using old
    where l.tenant_id = any (array[old.tenant_id]) and l.job_id between old.id and old.id
),
named as (
    delete from leasehold.dedupe_holds h using old
    where h.tenant_id = any (array[old.tenant_id]) and h.dedupe_hash between old.id_hash and old.id_hash
)
select count(*) from jobs
