-- Enqueues jobs, all or none: one unknown or inactive definition and nothing is inserted. Wakes who can run them.
with moment as materialized (
    select leasehold.clock() as now from leasehold.durably()
),
known as materialized (
    select n.*, v.version, v.version is not null and d.active as accepted,
           coalesce(n.priority, v.priority) as its_priority, coalesce(n.max_attempts, v.max_attempts) as its_attempts,
           coalesce(n.at, moment.now + n.delay) as due, moment.now
    from unnest(
        :ids::uuid[], :id_hashes::bytea[], :definitions::text[], :versions::integer[], :payloads::text[],
        :priorities::smallint[], :max_attempts::integer[], :delays::interval[], :ats::timestamptz[],
        :deadlines::timestamptz[], :dedupe_hashes::bytea[], :dedupe_keys::text[], :holds::boolean[],
        :held_for::interval[], :sources::text[], :source_refs::text[], :correlation_ids::text[], :created_bys::text[]
    ) with ordinality as n (
        id, id_hash, definition, pinned, payload, priority, max_attempts, delay, at, deadline, dedupe_hash, dedupe_key,
        holds, held_for, source, source_ref, correlation_id, created_by, number
    )
    cross join moment
    left join leasehold.definitions d on d.key = n.definition
    left join leasehold.definition_versions v on v.key = d.key and v.version = coalesce(n.pinned, d.version)
),
-- `seq` is drawn in the order given, whatever order the rows are joined and inserted in.
wanted as materialized (
    select nextval('leasehold.jobs_seq') as seq, in_order.* from (select * from known order by number) in_order
),
-- An id that the caller brought is used once, whatever became of its job.
named as (
    insert into leasehold.dedupe_holds (tenant_id, dedupe_hash, job_id)
    select :tenant, id_hash, id from wanted
    where id_hash is not null and not exists (select from wanted w where not w.accepted)
    order by id_hash
    on conflict do nothing
    returning job_id
),
-- Keys that outlive their job. Taken in the order of the keys, so that two batches can't wait for each other.
taken as (
    insert into leasehold.dedupe_holds (tenant_id, dedupe_hash, job_id, expires_at)
    select :tenant, dedupe_hash, id, now + held_for from wanted
    where holds and not exists (select from wanted w where not w.accepted)
      and (id_hash is null or id in (select job_id from named))
    order by dedupe_hash
    on conflict (tenant_id, dedupe_hash)
        do update set job_id = excluded.job_id, expires_at = excluded.expires_at
        where dedupe_holds.expires_at <= (select now from moment)
    returning job_id
),
created as (
    insert into leasehold.jobs (
        id, seq, scheduled_for, queued_at, deadline, version, max_attempts, priority, ready, tenant_id, definition,
        status, payload, source, source_ref, correlation_id, created_by, dedupe_held, dedupe_hash,
        dedupe_key
    )
    select id, seq, due, now, deadline, version, its_attempts, its_priority, due <= now, :tenant, definition,
           'queued', payload::jsonb, source, source_ref, correlation_id, created_by,
           holds, dedupe_hash, dedupe_key
    from wanted
    where not exists (select from wanted w where not w.accepted)
      and (not holds or id in (select job_id from taken))
      and (id_hash is null or id in (select job_id from named))
    order by dedupe_hash, number
    on conflict do nothing
    returning id, definition, scheduled_for
),
lane as (
    select definition, min(scheduled_for) as due from created group by definition
),
woken as materialized (
    select leasehold.wake(array_agg(definition), array_agg(:tenant::text), array_agg(due)) as count from lane
)
select w.number, w.definition, w.pinned, w.version is null as unknown, not w.accepted as refused,
       c.id is not null as created, named.job_id is not null and c.id is null as named_for_nothing, woken.count as woken
from wanted w left join created c on c.id = w.id left join named on named.job_id = w.id cross join woken
order by w.number
