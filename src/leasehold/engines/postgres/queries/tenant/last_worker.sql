-- Finds the worker that last ended a job of a definition, among the newest ended jobs of the tenant.
select ended.worker_id, leasehold.shown(ended.finished_at) as finished_at, named.host, named.pid
from (
    select d.definition, d.worker_id, d.finished_at from leasehold.jobs_done d
    where d.tenant_id = :tenant order by d.id desc limit :most
) ended
left join lateral (
    select n.host, n.pid from leasehold.worker_names n where n.id = ended.worker_id limit 1
) named on true
where ended.definition is not distinct from :definition::text and ended.worker_id is not null
order by ended.finished_at desc limit 1
