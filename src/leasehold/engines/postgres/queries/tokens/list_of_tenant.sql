-- Lists the tokens that are bound to a tenant, by their ids.
select include(token_columns) from leasehold.api_tokens t cross join leasehold.clock() as now
where t.tenant_id = :tenant and t.id > :after order by t.id limit :limit
