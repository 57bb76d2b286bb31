-- No transaction with an older snapshot writes for a tenant that is being removed.
--
-- Such a transaction sees the tenant as open until its end. It may have no number yet when the removal looks for
-- transactions to wait for, so that its job could come after the tenant is gone.
-- needs: 0001

-- As before, and takes a lock on the tenant's row if the snapshot is that of a whole transaction. If the row has changed
-- since, the lock fails with a serialization error: the transaction is run again, and sees the tenant closed. Until such
-- a transaction ends, a removal of its tenant waits to begin. A weaker lock would not fail: the key has not changed.
create or replace function leasehold.require_tenant(tenant text) returns void language plpgsql volatile as $$
begin
    perform leasehold.require_tenant_id(tenant);
    if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
        perform from leasehold.tenants t where t.id = tenant for share;
    end if;
    if exists (select from leasehold.tenants t where t.id = tenant and t.deleted_by is not null) then
        perform leasehold.refuse(
            'LH-1015', format('tenant %L is being deleted. Nothing was written.', tenant),
            'Stop its producers. Once it is deleted, its name can be used again.');
    end if;
end $$;

alter function leasehold.require_event(text, text, jsonb, text, text) volatile;
