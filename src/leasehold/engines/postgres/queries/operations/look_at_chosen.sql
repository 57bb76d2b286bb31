-- Finds the next ones of the jobs that were chosen by their ids, if they still can be changed.
with matching as materialized (
    select j.id, j.attempt, j.later
    from (
        select a.id, a.attempt, a.status, coalesce(a.queued_at > :began::timestamptz, false) as later
        from leasehold.jobs a
        where a.tenant_id = :tenant and a.id = any (:jobs::uuid[])
        union all
        select d.id, d.attempt, d.status, coalesce(d.finished_at > :began::timestamptz, false)
        from leasehold.jobs_done d
        where d.tenant_id = :tenant and d.id = any (:jobs::uuid[])
    ) j
    where j.id <= :up_to::uuid and j.status = any (:statuses::text[])
    order by j.id desc limit :limit
)
select array(select id from matching order by id desc) as ids,
       array(select attempt from matching order by id desc) as attempts,
       array(select later from matching order by id desc) as laters,
       0 as looked,
       null::uuid as last
