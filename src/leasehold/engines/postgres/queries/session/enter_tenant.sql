-- Gives this transaction the rights of a role, and the rows of a tenant. Both end with the transaction.
select set_config('role', :role, true), set_config('leasehold_session.tenant', :tenant, true)
