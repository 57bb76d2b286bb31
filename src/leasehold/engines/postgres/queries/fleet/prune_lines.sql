-- Deletes at most :lines lines of ended jobs whose retention is over, so that those jobs can go. Returns how many lines.
with old as materialized (
    select tenant_id, id from leasehold.jobs_done
    where prune_after <= (select leasehold.clock())
    order by prune_after limit :limit
    for update skip locked
),
-- A job that logged two million lines took 2.7 s to delete with all of them in one statement.
doomed as materialized (
    select line.ctid
    from old
    cross join lateral (
        select l.ctid from leasehold.job_lines l
        where l.tenant_id = old.tenant_id and l.job_id = old.id
        order by l.attempt, l.number limit :lines
    ) line
    limit :lines
),
gone as (
    delete from leasehold.job_lines l using doomed where l.ctid = doomed.ctid
    returning l.number
)
select count(*) from gone
