-- Passes a wake on: wakes sleepers that can run what is ready among what this worker serves.
select leasehold.wake_another(:worker, :definitions::text[], :tenants::text[]) as woken
