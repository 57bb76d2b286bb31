-- Finds those of these ended jobs whose dedupe key an active job holds, or one before them in the list: a retry skips
-- them.
with ended as materialized (
    select d.id, d.dedupe_hash, d.dedupe_held,
           row_number() over (partition by d.dedupe_hash order by wanted.number) as turn
    from unnest(:jobs::uuid[]) with ordinality as wanted (id, number)
    cross join lateral (
        select d.id, d.dedupe_hash, d.dedupe_held from leasehold.jobs_done d
        where d.tenant_id = :tenant and d.id = wanted.id limit 1
    ) d
    where d.dedupe_hash is not null
)
select e.id
from ended e
left join lateral (
    select true as is_active from leasehold.jobs j
    where j.tenant_id = :tenant and j.dedupe_hash = e.dedupe_hash and not j.dedupe_held limit 1
) active on not e.dedupe_held
left join lateral (
    select true as is_held from leasehold.dedupe_holds h
    where h.tenant_id = :tenant and h.dedupe_hash = e.dedupe_hash and h.job_id <> e.id
      and (h.expires_at is null or h.expires_at > (select leasehold.clock())) limit 1
) hold on e.dedupe_held
where (e.turn > 1 and not e.dedupe_held) or active.is_active or hold.is_held
