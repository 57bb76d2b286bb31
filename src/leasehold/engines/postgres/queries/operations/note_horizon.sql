-- Notes a transaction that began after the tenant was closed: this one, whose number is above those of all before it. The
-- end of a snapshot would not do: it lies behind the last transaction that has ended, and others may be under way above.
update leasehold.operations set place = pg_current_xact_id()::text where id = :operation::uuid
