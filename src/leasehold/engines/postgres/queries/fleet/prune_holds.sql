-- Deletes expired dedupe keys. Returns how many.
with expired as (
    delete from leasehold.dedupe_holds h
    where h.ctid in (
        select ctid from leasehold.dedupe_holds
        where expires_at <= (select leasehold.clock())
        order by expires_at limit :limit
        for update skip locked
    )
    returning h.job_id
)
select count(*) from expired
