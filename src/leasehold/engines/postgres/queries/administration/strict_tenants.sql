-- Tells whether enqueue refuses a tenant that was never registered.
select coalesce((select strict_tenants from leasehold.settings), false) as strict
