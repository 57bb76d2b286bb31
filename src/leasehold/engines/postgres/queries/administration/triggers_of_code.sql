-- Reads triggers of the code: those with these ids, deleted or not, and all others of these definitions.
select include(trigger_columns) from leasehold.triggers t where t.id = any (:triggers::uuid[])
union
select include(trigger_columns) from leasehold.triggers t
where t.definition = any (:definitions::text[]) and t.origin = 'code' and t.deleted_at is null
