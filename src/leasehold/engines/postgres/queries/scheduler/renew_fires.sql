-- Notes the next fires of crons by the tzdata of this process, and tells schedulers.
with t as (
    update leasehold.triggers t
    set next_fire_at = m.next_fire_at, tzdata = :tzdata::text
    from unnest(:triggers::uuid[], :next_fire_ats::timestamptz[]) as m (id, next_fire_at)
    -- A range instead of plain equality: see advance.sql.
    where t.id between m.id and m.id
    returning t.*
)
select t.id, include(announce_fire) as announced from t
