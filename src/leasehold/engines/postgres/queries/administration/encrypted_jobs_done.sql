-- The next ended jobs of all tenants by key, those with encrypted fields together with their payload.
with seen as materialized (
    select j.tenant_id, j.id, j.definition, j.payload
    from leasehold.jobs_done j
    where (j.tenant_id, j.id) > (:tenant::text, :after::uuid)
    order by j.tenant_id, j.id
    limit :limit
)
select s.tenant_id, s.id::text as id, s.definition,
       case when jsonb_path_exists(s.payload, '$.*."$secret"') then s.payload::text end as payload
from seen s
order by s.tenant_id, s.id
