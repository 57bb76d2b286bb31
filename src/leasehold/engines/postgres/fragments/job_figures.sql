-- Ended jobs in groups that are alike in all that is counted.
leasehold.minute_of(e.finished_at) as at, leasehold.minute_of(e.queued_at) as queued_at,
leasehold.minute_of(e.started_at) as started_at, e.tenant_id, e.definition, e.status,
width_bucket(date_part('epoch', e.started_at - greatest(e.scheduled_for, e.queued_at)),
leasehold.series_bounds()) as wait,
width_bucket(date_part('epoch', e.finished_at - e.started_at), leasehold.series_bounds()) as run,
count(*) as n,
sum(date_part('epoch', e.finished_at - e.started_at)) as busy
