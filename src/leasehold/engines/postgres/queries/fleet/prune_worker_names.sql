-- Deletes names of workers that have gone and are kept no longer. Returns how many.
with old as (
    delete from leasehold.worker_names n
    where n.ctid in (
        select o.ctid from leasehold.worker_names o
        where o.started_at < (select leasehold.clock() - s.worker_history from leasehold.settings s)
          and not exists (select from leasehold.workers w where w.id = o.id)
        order by o.started_at limit :limit
        for update of o skip locked
    )
    returning n.id
)
select count(*) from old
