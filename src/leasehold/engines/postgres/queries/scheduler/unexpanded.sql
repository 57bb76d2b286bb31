-- Lists events that wait to be expanded, the oldest first, each with the triggers that match it.
select e.tenant_id as tenant, e.id, e.name, e.data::text as data, e.emitted_at as at, e.correlation_id, e.created_by,
       e.expanded_at, leasehold.triggers_of(e.tenant_id, e.name, e.emitted_at) as triggers
from leasehold.events e
where e.expanded_at is null
order by e.emitted_at limit :limit
