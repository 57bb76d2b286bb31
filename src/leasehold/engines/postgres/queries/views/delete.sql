-- Deletes a saved view.
delete from leasehold.saved_views v where v.tenant_id = :tenant and v.owner = :owner and v.name = :name returning v.name
