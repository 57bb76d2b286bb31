-- Reads the clock.
select leasehold.clock();
