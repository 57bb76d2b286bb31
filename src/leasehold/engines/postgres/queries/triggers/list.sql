-- Lists the triggers of a tenant after one of them, the oldest first.
select include(trigger_columns) from leasehold.triggers t
where t.tenant_id = :tenant::text and t.id > coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000')
  and t.deleted_at is null
order by t.id limit :limit
