-- Workers tell that they drain, and people save views of lists.
--
-- The release before does not know these things, and does not need them: its workers are shown as live until they leave.
-- needs: 0001

-- Since when the worker starts no job any more, and lets those that run end.
alter table leasehold.workers add column drains_since timestamptz;

-- A view of a list in the console: the words of its search, its columns and its size, as its address has them.
create table leasehold.saved_views (
    tenant_id   text collate "C" not null,                  -- empty: of the lists of all tenants
    owner       text collate "C" not null check (length(owner) <= 1000), -- empty: all people of the tenant share it
    name        text collate "C" not null check (length(name) between 1 and 60),
    query       text not null check (length(query) between 1 and 4000),
    created_by  text check (length(created_by) <= 1000),
    created_at  timestamptz not null,
    primary key (tenant_id, owner, name)
);
