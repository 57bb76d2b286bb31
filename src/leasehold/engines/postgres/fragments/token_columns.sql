-- A token of the row t, at the moment now. An expired or revoked one has no live secret.
t.id, t.name, t.role, t.tenant_id, t.permissions, t.definitions, t.created_by, t.created_at, t.expires_at,
t.overlap_until, t.revoked_at, t.last_used_at,
case when t.revoked_at is null and t.expires_at > now then t.secret_hash end as secret_hash,
case when t.revoked_at is null and t.overlap_until > now then t.overlap_hash end as overlap_hash
