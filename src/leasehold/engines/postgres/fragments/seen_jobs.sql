-- Tells of the rows `job`, the newest first: how many there were, the first, the last, and those that match.
count(*) as looked, (array_agg(job.id))[1] as newest, (array_agg(job.id))[count(*)] as oldest,
coalesce(array_agg(job.id) filter (where job.matches), '{}') as matching
