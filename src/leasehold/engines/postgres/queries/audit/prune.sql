-- Deletes entries that are kept no longer. Returns how many. Only the owner of the schema may.
with old as (
    delete from leasehold.audit_log a
    where a.id in (
        -- Ids sort by time: the oldest entries are looked at, and no more, even if none of them is too old.
        select o.id from (select id, at from leasehold.audit_log order by id limit :limit) o
        where o.at < (select leasehold.clock() - s.audit_history from leasehold.settings s)
    )
    returning a.id
)
select count(*) from old
