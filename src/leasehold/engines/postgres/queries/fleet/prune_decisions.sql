-- Deletes decisions of triggers that are kept no longer. Returns how many.
with old as (
    delete from leasehold.trigger_decisions d
    where d.ctid in (
        select ctid from leasehold.trigger_decisions
        where decided_at < (select leasehold.clock() - s.trigger_history from leasehold.settings s)
        order by decided_at limit :limit
        for update skip locked
    )
    returning d.id
)
select count(*) from old
