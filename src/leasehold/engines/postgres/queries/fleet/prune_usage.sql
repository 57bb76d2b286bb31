-- Deletes usage that is kept no longer. Returns how many rows.
with old as (
    delete from leasehold.usage_hours u
    where u.ctid in (
        select ctid from leasehold.usage_hours
        where at < (select leasehold.clock() - s.usage_history from leasehold.settings s)
        order by at limit :limit
        for update skip locked
    )
    returning u.at
)
select count(*) from old
