-- Ends a token at once. One that was revoked before keeps its time.
update leasehold.api_tokens t set revoked_at = coalesce(t.revoked_at, now) from leasehold.clock() as now
where t.id = :token returning t.id
