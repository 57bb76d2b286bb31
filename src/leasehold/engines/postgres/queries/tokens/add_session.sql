-- Saves a session of a browser, whose life begins now. Removes some of those that have expired.
with expired as (
    delete from leasehold.console_sessions e
    where e.hash in (
        select x.hash from leasehold.console_sessions x
        where x.expires_at <= leasehold.clock() order by x.expires_at limit :most
        for update skip locked
    )
)
insert into leasehold.console_sessions (hash, kind, token, created_at, expires_at)
select :hash::bytea, :kind, :token, now, now + :life::interval from leasehold.clock() as now
