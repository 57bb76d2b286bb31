-- Deletes figures of minutes that are kept no longer. Returns how many rows.
with old as (
    delete from leasehold.series_minutes s
    where s.ctid in (
        select ctid from leasehold.series_minutes
        where at < (select leasehold.clock() - s.minute_history from leasehold.settings s)
        order by at limit :limit
        for update skip locked
    )
    returning s.at
)
select count(*) from old
