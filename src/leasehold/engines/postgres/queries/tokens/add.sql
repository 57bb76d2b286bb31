-- Saves a token, whose life begins now.
with t as (
    insert into leasehold.api_tokens (
        id, name, role, tenant_id, permissions, definitions, secret_hash, created_by, created_at, expires_at
    )
    select :token, :name, :role, :tenant, :permissions::text[], :definitions::text[], :hash::bytea, :created_by, now,
           now + :life::interval
    from leasehold.clock() as now
    returning *
)
select include(token_columns) from t cross join leasehold.clock() as now
