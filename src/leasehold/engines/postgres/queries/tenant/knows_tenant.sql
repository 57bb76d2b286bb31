-- For strict tenants: was this one ever registered?
select exists (select from leasehold.tenants where id = :tenant)
