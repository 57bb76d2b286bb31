-- Notes that a token was used now.
update leasehold.api_tokens t set last_used_at = now from leasehold.clock() as now where t.id = :token
