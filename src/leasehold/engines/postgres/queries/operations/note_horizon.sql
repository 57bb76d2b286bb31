-- Notes the first transaction that can only begin after the tenant was closed.
update leasehold.operations set place = pg_snapshot_xmax(pg_current_snapshot())::text where id = :operation::uuid
