-- Reads the engine's clock.
select leasehold.clock() as now
