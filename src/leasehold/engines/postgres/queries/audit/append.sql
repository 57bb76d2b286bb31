-- Notes a change by an administrator.
insert into leasehold.audit_log (id, at, action, subject, tenant_id, actor, token_id, request_id, before, after)
select leasehold.uuid7(), leasehold.clock(), :action, :subject, :tenant::text, :actor, :token::text, :request::text,
       :before::jsonb, :after::jsonb
