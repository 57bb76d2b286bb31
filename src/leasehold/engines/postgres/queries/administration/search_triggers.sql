-- Finds triggers of all tenants by their label, or by the end of their id if it is given; labels come first.
--
-- No index has labels, so that this reads all triggers: it is for people, who name a tenant or the whole id to avoid it.
select include(trigger_columns) from leasehold.triggers t
where t.deleted_at is null and (t.label = :label::text or right(t.id::text, length(:end::text)) = :end::text)
order by t.label = :label::text desc, t.id limit :limit
