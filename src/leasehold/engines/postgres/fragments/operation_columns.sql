-- An operation as people see it, of the row o.
o.id, o.kind, o.tenant_id, o.state, o.job_filter, o.pace, o.canary, o.canary_job, o.place, o.total, o.total_is_cap, o.done,
o.skipped, o.refused, o.details, o.error, o.created_by, o.reason, o.created_at, o.started_at, o.ended_at, o.due_at
