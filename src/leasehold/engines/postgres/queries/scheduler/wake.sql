-- Wakes workers for jobs that this transaction has added to these lanes, due at these times.
select leasehold.wake(:definitions::text[], :tenants::text[], :dues::timestamptz[]) as woken
