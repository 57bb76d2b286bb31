-- Which jobs hold these ids or dedupe keys; in that order: the same id, an active job's key, a key held beyond.
select n.number,
       coalesce(
           (select j.id from leasehold.jobs j where n.brought and j.tenant_id = :tenant and j.id = n.id),
           (select d.id from leasehold.jobs_done d where n.brought and d.tenant_id = :tenant and d.id = n.id),
           (select j.id from leasehold.jobs j
            where not n.holds and j.tenant_id = :tenant and j.dedupe_hash = n.dedupe_hash and not j.dedupe_held),
           (select h.job_id from leasehold.dedupe_holds h
            where n.holds and h.tenant_id = :tenant and h.dedupe_hash = n.dedupe_hash
              and (h.expires_at is null or h.expires_at > (select leasehold.clock())))
       ) as holder
from unnest(:ids::uuid[], :brought::boolean[], :dedupe_hashes::bytea[], :holds::boolean[])
     with ordinality as n (id, brought, dedupe_hash, holds, number)
