-- A trigger as people see it, of the row t.
t.id, t.tenant_id, t.label, t.enabled, t.kind, t.event_name, t.event_filter, t.dedupe_window, t.trailing_run, t.cron,
t.every, t.anchor, t.zone, t.catch_up, t.catch_up_cap, t.spread, t.cursor_at, t.cursor_local, t.last_fire_at,
t.next_fire_at, t.definition, t.payload_template, t.paused_at, t.paused_until, t.pause_reason, t.origin, t.version,
t.created_by, t.created_at, t.updated_at, t.deleted_at
