-- Names the jobs that hold dedupe keys of a tenant, and until when.
select w.key, h.job_id, h.expires_at
from (select :tenant::text as tenant_id, key from unnest(:keys::text[]) as key) w
join leasehold.dedupe_holds h on h.tenant_id = w.tenant_id
    and h.dedupe_hash = sha256(convert_to(w.key, 'UTF8'))
where h.expires_at > (select leasehold.clock())
