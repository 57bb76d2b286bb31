-- Deletes expanded events that are kept no longer. Returns how many.
with old as (
    delete from leasehold.events e
    where e.ctid in (
        select ctid from leasehold.events
        where expanded_at < (select leasehold.clock() - s.trigger_history from leasehold.settings s)
        order by expanded_at limit :limit
        for update skip locked
    )
    returning e.id
)
select count(*) from old
