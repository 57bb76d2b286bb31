-- Deletes jobs that do not run, of a tenant that is being deleted. Returns how many. A caller that waits for one is told.
with looked as materialized (
    select j.id from leasehold.jobs j where j.tenant_id = :tenant order by j.id limit :limit
),
free as materialized (
    select j.ctid from looked
    cross join lateral (
        select j.ctid from leasehold.jobs j
        where j.tenant_id = :tenant and j.id = looked.id and j.status <> 'running' limit 1
        for update skip locked
    ) j
),
gone as (
    delete from leasehold.jobs where ctid = any (array(select ctid from free)) returning awaited
),
heard as materialized (
    select count(pg_notify(leasehold.channel_for_results(), '')) from (select from gone where awaited limit 1) w
)
select (select count(*) from gone) as count, heard.count from heard
