-- Sessions of browsers, and one-time links that begin one: hashes of their secrets.
--
-- A session has the rights of its API token, and is dead without it: nothing refers to the token's row.
-- The release before does not know this table, and does not need it.
-- needs: 0001

create table leasehold.console_sessions (
    hash        bytea primary key,
    kind        text not null check (kind in ('session', 'link')),
    token       text collate "C" not null,
    created_at  timestamptz not null,
    expires_at  timestamptz not null
);

create index console_sessions_expiry on leasehold.console_sessions (expires_at);
