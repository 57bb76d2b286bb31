-- The next jobs of all tenants by key, ended or not, those with encrypted fields together with their payload
-- and the schema of their version, which tells whether the fields are secret.
with seen as materialized (
    (
        select j.tenant_id, j.id, j.definition, j.version, j.payload
        from leasehold.jobs j
        where not :ended::bool and (j.tenant_id, j.id) > (:tenant::text, :after::uuid)
        order by j.tenant_id, j.id
        limit :limit
    )
    union all
    (
        select d.tenant_id, d.id, d.definition, d.version, d.payload
        from leasehold.jobs_done d
        where :ended and (d.tenant_id, d.id) > (:tenant, :after)
        order by d.tenant_id, d.id
        limit :limit
    )
)
select s.tenant_id, s.id::text as id, s.definition,
       case when e.is_encrypted then s.payload::text end as payload,
       case when e.is_encrypted then v.schema::text end as schema
from seen s
cross join lateral (select jsonb_path_exists(s.payload, '$.*."$secret"') as is_encrypted) e
left join leasehold.definition_versions v on v.key = s.definition and v.version = s.version
order by s.tenant_id, s.id
