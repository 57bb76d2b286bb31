-- The newest jobs that ended within `span`, by prune_after, which is finished_at and the retention: the index that
-- pruning has. For each length of retention at most :limit.
select d.tenant_id, d.id, d.definition, d.status, d.attempt, d.finished_at, l.length as kept_for
from span cross join leasehold.retention_lengths() as l (length)
cross join lateral (
    select d.tenant_id, d.id, d.definition, d.status, d.attempt, d.finished_at from leasehold.jobs_done d
    where d.prune_after >= span.begin + l.length and d.prune_after <= span.now + l.length
      and d.finished_at >= span.begin
    order by d.prune_after desc limit :limit
) d
union all
select d.tenant_id, d.id, d.definition, d.status, d.attempt, d.finished_at, null
from span cross join lateral (
    select d.tenant_id, d.id, d.definition, d.status, d.attempt, d.finished_at from leasehold.jobs_done d
    where d.prune_after is null and d.finished_at >= span.begin
    order by d.finished_at desc limit :limit
) d
