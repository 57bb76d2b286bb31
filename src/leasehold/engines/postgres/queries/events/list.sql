-- Lists events of a tenant, the newest first.
select e.tenant_id as tenant, e.id, e.name, e.data::text as data, e.emitted_at as at, e.correlation_id, e.created_by,
       e.expanded_at
from leasehold.events e
where e.tenant_id = :tenant::text and (:name::text is null or e.name = any (array[:name::text]))
  and (:before::uuid is null or e.id < :before::uuid)
order by e.id desc limit :limit
