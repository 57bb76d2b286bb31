-- Gives the rest of this transaction the role that it had before it acted for a tenant.
select set_config('role', :role::text, true), set_config('leasehold_session.tenant', '', true)
