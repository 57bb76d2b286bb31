-- Gives a live token a new secret and a new life. The secret before stays valid for a while, at most for its own life.
with t as (
    update leasehold.api_tokens o
    set secret_hash = :hash::bytea, expires_at = now + :life::interval, overlap_hash = o.secret_hash,
        overlap_until = least(o.expires_at, now + :overlap::interval)
    from leasehold.clock() as now
    where o.id = :token and o.revoked_at is null and o.expires_at > now
    returning o.*
)
select include(token_columns) from t cross join leasehold.clock() as now
