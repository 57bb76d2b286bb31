-- Asks for the end of a tenant's running jobs, and deletes those whose worker is gone. Returns how many are left.
with moment as materialized (
    select leasehold.clock() as now
),
running as materialized (
    select j.ctid as place, j.worker_id, j.cancel_requested_at, w.id is null as abandoned
    from (
        select one.* from leasehold.definitions f
        cross join lateral (
            select j.ctid, j.worker_id, j.cancel_requested_at from leasehold.jobs j
            where j.status = 'running' and j.definition = f.key and j.tenant_id = :tenant
            order by j.started_at limit :limit
        ) one
        limit :limit
    ) j
    left join lateral (
        select w.id from leasehold.workers w
        where w.id = j.worker_id and w.lease_expires_at >= (select now from moment) limit 1
    ) w on true
),
-- By their places: a row that was changed meanwhile has another one, and is found by the next batch.
gone as (
    delete from leasehold.jobs where ctid = any (array(select place from running where abandoned)) returning id
),
asked as (
    update leasehold.jobs set cancel_requested_at = (select now from moment)
    where ctid = any (array(select place from running where not abandoned and cancel_requested_at is null))
    returning worker_id
),
told as materialized (
    select count(pg_notify(leasehold.channel(worker_id), 'cancel'))
    from (select distinct worker_id from asked where worker_id is not null) w
)
select (select count(*) from running where not abandoned) as count, (select count(*) from gone) as gone, told.count
from told
