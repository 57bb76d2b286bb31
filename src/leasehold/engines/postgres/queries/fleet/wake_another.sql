-- Passes a wake on: wakes sleeping workers that can run ready jobs which this worker serves.
select leasehold.wake_another(:worker, :definitions::text[], :tenants::text[]) as woken
