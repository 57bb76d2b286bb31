-- Returns the time, and up to when figures are added up.
select leasehold.clock() as now, p.minutes, p.hours from leasehold.series_progress p
