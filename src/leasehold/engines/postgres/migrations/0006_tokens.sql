-- API tokens: the hashes of their secrets, and what each of them may do.
--
-- The release before does not know this table, and does not need it.
-- needs: 0001

create table leasehold.api_tokens (
    id             text collate "C" primary key check (id ~ '^[a-z2-7]{12}$'),  -- public
    name           text not null,
    role           text not null,
    tenant_id      text collate "C",                      -- null: all tenants
    permissions    text[],                                -- null: those of the role
    definitions    text[],                                -- null: all; for workers
    secret_hash    bytea not null,
    overlap_hash   bytea,                                 -- the secret before, while a rotation overlaps
    overlap_until  timestamptz,
    created_by     text,
    created_at     timestamptz not null,
    expires_at     timestamptz not null,
    revoked_at     timestamptz,
    last_used_at   timestamptz,
    check ((overlap_hash is null) = (overlap_until is null))
);

create index api_tokens_tenant on leasehold.api_tokens (tenant_id, id) where tenant_id is not null;
