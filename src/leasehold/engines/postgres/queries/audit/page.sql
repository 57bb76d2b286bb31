-- Lists changes by administrators, the newest first: those with ids from `from_id` to `up_to`.
select a.id, leasehold.shown(a.at) as at, a.action, a.subject, a.tenant_id, a.actor, a.token_id, a.request_id,
       a.before, a.after
from leasehold.audit_log a
where (:tenant::text is null or a.tenant_id = :tenant) and (:action::text is null or a.action = :action)
  and a.id >= :from_id::uuid and a.id <= :up_to::uuid
order by a.id desc limit :limit
