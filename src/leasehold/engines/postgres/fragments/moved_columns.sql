-- Columns that a job keeps when it moves from jobs to jobs_done. The statement that moves it sets the other columns.
id, scheduled_for, queued_at, started_at, deadline, version, attempt, max_attempts, forgiven, priority,
dedupe_held, tenant_id, definition, payload, source, source_ref, correlation_id, created_by, dedupe_hash, dedupe_key
