-- Deletes figures of hours that are kept no longer. Returns how many rows.
with old as (
    delete from leasehold.series_hours s
    where s.ctid in (
        select ctid from leasehold.series_hours
        where at < (select leasehold.clock() - s.hour_history from leasehold.settings s)
        order by at limit :limit
        for update skip locked
    )
    returning s.at
)
select count(*) from old
