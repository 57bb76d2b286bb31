-- Deletes ended jobs whose retention is over, with their attempts and lines. Returns how many jobs.
with old as materialized (
    select tenant_id, id from leasehold.jobs_done
    where prune_after <= (select leasehold.clock())
    order by prune_after limit :limit
    for update skip locked
),
jobs as (
    delete from leasehold.jobs_done d using old where d.tenant_id = old.tenant_id and d.id = old.id returning d.id
),
attempts as (
    delete from leasehold.job_attempts a using old where a.tenant_id = old.tenant_id and a.job_id = old.id
),
lines as (
    delete from leasehold.job_lines l using old where l.tenant_id = old.tenant_id and l.job_id = old.id
),
named as (
    delete from leasehold.dedupe_holds h using old
    where h.tenant_id = old.tenant_id and h.dedupe_hash = sha256(convert_to('id:' || old.id::text, 'UTF8'))
),
expired as (
    delete from leasehold.dedupe_holds h
    where h.ctid in (
        select ctid from leasehold.dedupe_holds
        where expires_at <= (select leasehold.clock())
        order by expires_at limit :limit
        for update skip locked
    )
)
select count(*) from jobs
