-- The audit log: which administrator has changed what, and when. The name of the administrator who paused a scope.
--
-- Only the owner of the schema can delete entries, and no role is granted an update. Entries stay when their tenant is
-- deleted. Ids sort by time, so pages need no other order.
--
-- The release before does not know this table. Its administrators leave no entries.
-- needs: 0001

-- How long entries are kept.
alter table leasehold.settings
    add column audit_history interval not null default interval '400 days'
        check (audit_history between interval '0' and interval '36500 days');

create table leasehold.audit_log (
    id          uuid primary key,
    at          timestamptz not null,
    action      text collate "C" not null,
    subject     text not null,
    tenant_id   text collate "C",                          -- null: it concerns all tenants
    actor       text not null,
    token_id    text,
    request_id  text,
    before      jsonb,
    after       jsonb
);

create index audit_log_tenant on leasehold.audit_log (tenant_id, id) where tenant_id is not null;
create index audit_log_action on leasehold.audit_log (action, id);

alter table leasehold.limits add column paused_by text;
