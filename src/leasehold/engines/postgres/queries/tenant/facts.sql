-- Reads a job with what decides about its claim: the jobs ahead of it, and a transaction that holds its row.
select job.*, (select leasehold.clock()) as now,
       ahead.jobs as ahead,
       exists (
           select from leasehold.definition_versions v where v.key = job.definition and v.version = job.version
       ) as version_known,
       lock.pid is not null or lock.transactionid is not null as locked,
       lock.pid as lock_pid, lock.application_name as lock_application, lock.state as lock_state,
       lock.xact_start as lock_since, hold.job_id as key_holder
from (select * from leasehold.job_records where tenant_id = :tenant and id = :job limit 1) job
left join lateral (
    select j.xmax as locker, j.priority, case when j.ready then j.seq else 9223372036854775807 end as seq
    from leasehold.jobs j where j.tenant_id = :tenant and j.id = :job and j.status = 'queued' limit 1
) waiting on true
-- A job that is not in its lane yet will be the last one of its priority. Two ranges instead of one comparison of rows:
-- before PostgreSQL 18 such a comparison reads all jobs of the priority.
cross join lateral (
    select count(*) as jobs from (
        select from leasehold.definitions f
        cross join lateral (
            (
                select 1 as one from leasehold.jobs o
                where o.ready and o.definition = f.key and o.tenant_id = :tenant and o.priority < waiting.priority
                order by o.priority, o.seq limit :most
            )
            union all
            (
                select 1 from leasehold.jobs o
                where o.ready and o.definition = f.key and o.tenant_id = :tenant
                  and o.priority = waiting.priority and o.seq < waiting.seq
                order by o.priority, o.seq limit :most
            )
        ) job_ahead
        limit :most
    ) counted
) ahead
-- A lock of a row stands in its xmax: a transaction, or a multixact, which stands for several. Both are numbers, and a
-- lock that is over leaves its number behind; but only a transaction that goes on holds a lock on its own number. The
-- members of a multixact can be asked for only if one of this number exists.
left join lateral (
    select l.pid, l.transactionid, a.application_name, a.state, a.xact_start
    from (
        select waiting.locker as xid
        union all
        select member.xid
        from pg_class c
        cross join lateral pg_get_multixact_members(
            case when waiting.locker::text::bigint between c.relminmxid::text::bigint and mxid_age('1'::xid)
                 then waiting.locker end
        ) member
        where c.oid = 'leasehold.jobs'::regclass
    ) holder
    join pg_locks l on l.locktype = 'transactionid' and l.transactionid = holder.xid and l.granted
                   and l.mode = 'ExclusiveLock'
    left join pg_stat_activity a on a.pid = l.pid
    where waiting.locker <> '0'::xid
    limit 1
) lock on true
-- Another job may hold the key of one that has ended, by its row while it is active, or for longer by a hold.
left join lateral (
    select coalesce(
        (
            select o.id from leasehold.jobs o
            where o.tenant_id = :tenant and o.dedupe_hash = d.dedupe_hash and not o.dedupe_held and not d.dedupe_held
            limit 1
        ),
        (
            select h.job_id from leasehold.dedupe_holds h
            where h.tenant_id = :tenant and h.dedupe_hash = d.dedupe_hash and h.job_id <> d.id and d.dedupe_held
              and (h.expires_at is null or h.expires_at > (select leasehold.clock()))
            limit 1
        )
    ) as job_id
    from leasehold.jobs_done d
    where d.tenant_id = :tenant and d.id = :job and d.dedupe_hash is not null
    limit 1
) hold on true
