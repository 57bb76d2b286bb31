-- Makes enqueue refuse tenants that were never registered, or accept them again.
insert into leasehold.settings (strict_tenants) values (:strict)
on conflict (only_row) do update set strict_tenants = excluded.strict_tenants
