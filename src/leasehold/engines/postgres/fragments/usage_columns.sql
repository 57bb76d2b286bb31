-- The columns of usage.
u.tenant_id, u.definition, u.at, u.attempts, u.run_time, u.cpu_time, u.cpu_attempts
