-- What the engine's clock says.
select leasehold.clock() as now
