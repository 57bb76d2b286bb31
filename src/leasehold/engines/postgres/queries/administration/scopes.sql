-- Lists tenants and definitions that have a limit or a pause now.
select l.kind, l.key, l.max_running, leasehold.shown(l.paused_until) as paused_until, l.paused_by,
       case when coalesce(l.paused_until > now, true) then l.pause_reason end as pause_reason
from leasehold.limits l cross join leasehold.clock() as now
where l.max_running is not null or (l.pause_reason is not null and coalesce(l.paused_until > now, true))
order by l.kind, l.key limit :limit
