-- Lists why policies would not confine a role: it does not exist, it can't be taken, it is above policies, or a table.
select 'the role does not exist' as why where to_regrole(quote_ident(:role::text)) is null
union all
select format('the role %s is not a member of it', current_user)
from pg_roles r where r.rolname = :role::text and not pg_has_role(r.oid, 'member')
union all
select 'it is a superuser, or has BYPASSRLS, and policies do not hold for it'
from pg_roles r where r.rolname = :role::text and (r.rolsuper or r.rolbypassrls)
union all
select format('it owns the table %s', c.relname)
from pg_roles r join pg_class c on c.relnamespace = to_regnamespace('leasehold') and c.relkind in ('r', 'p')
where r.rolname = :role::text and pg_has_role(r.oid, c.relowner, 'usage') and not r.rolsuper
union all
select format('the table %s has no policy for it', c.relname)
from pg_roles r join pg_class c on c.relnamespace = to_regnamespace('leasehold') and c.relkind in ('r', 'p')
join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped
where r.rolname = :role::text
  and not (c.relrowsecurity and exists (
      select from pg_policy p
      where p.polrelid = c.oid and not p.polpermissive and p.polcmd = '*' and p.polroles @> array[r.oid]))
