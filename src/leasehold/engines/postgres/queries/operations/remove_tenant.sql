-- Deletes the row of a tenant that is empty, once no transaction can still write for it: all that began before the
-- horizon are over, and a statement that had looked at the tenant before had a second to write. No row: not yet.
delete from leasehold.tenants t
using leasehold.operations o,
      -- No row while a roll-up is under way: it may write figures of jobs that it still sees.
      (select from leasehold.series_progress for share skip locked) no_roll_up
where t.id = :tenant and t.deleted_by = o.id and o.id = :operation::uuid
  and pg_snapshot_xmin(pg_current_snapshot()) >= o.place::xid8
  and o.started_at + interval '1 second' <= leasehold.clock()
  -- Rows that others had locked were passed over.
  and not exists (select from leasehold.jobs j where j.tenant_id = :tenant)
  and not exists (select from leasehold.jobs_done d where d.tenant_id = :tenant)
  and not exists (select from leasehold.series_minutes m where m.tenant_id = :tenant)
  and not exists (select from leasehold.series_hours h where h.tenant_id = :tenant)
  and not exists (select from leasehold.usage_hours u where u.tenant_id = :tenant)
  and not exists (select from leasehold.saved_views v where v.tenant_id = :tenant)
returning t.id
