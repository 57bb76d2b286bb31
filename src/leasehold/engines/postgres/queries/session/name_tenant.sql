-- Names the tenant of this transaction, which keeps the rights of its login.
select set_config('leasehold_session.tenant', :tenant, true)
