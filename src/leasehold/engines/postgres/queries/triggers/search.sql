-- Finds triggers of a tenant by their label, or by the end of their id if it is given; those with the label come first.
select include(trigger_columns) from leasehold.triggers t
where t.tenant_id = :tenant::text and t.deleted_at is null
  and (t.label = :label::text or right(t.id::text, length(:end::text)) = :end::text)
order by t.label = :label::text desc, t.id limit :limit
