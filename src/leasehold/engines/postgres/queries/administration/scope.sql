-- Shows the limit and the pause that a tenant or a definition has now.
select l.kind, l.key, l.max_running, leasehold.shown(l.paused_until) as paused_until, l.paused_by,
       case when coalesce(l.paused_until > now, true) then l.pause_reason end as pause_reason
from leasehold.limits l cross join leasehold.clock() as now
where l.kind = :kind and l.key = :key
