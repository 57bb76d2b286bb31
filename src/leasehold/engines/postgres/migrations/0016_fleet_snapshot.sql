-- Figures of the whole fleet, for gauges: one process measures them every 15 s, all others read the row.
--
-- No enqueue, claim or finish does anything for it.
-- The release before does not know this table, and does not need it.
-- needs: 0001

-- In one row; `figures` null: they were never measured. `took` is how long the latest measurement took.
create table leasehold.fleet_snapshot (
    only_row  boolean primary key default true check (only_row),
    taken_at  timestamptz not null,
    took      interval not null default '0',
    figures   jsonb
) with (fillfactor = 50);
insert into leasehold.fleet_snapshot (taken_at) values ('epoch');

-- Counts dead letters by tenant: at most 1,000 of a tenant, of the first 500 tenants that have ended jobs other than
-- succeeded ones.
create function leasehold.dead_letters()
returns table (tenant_id text, n bigint)
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_sort = on set jit = off set plan_cache_mode = force_custom_plan as $$
#variable_conflict use_column
begin
    return query
    with recursive tenants as (
        (select d.tenant_id, 1 as number from leasehold.jobs_done d
         where d.status <> 'succeeded' order by d.tenant_id limit 1)
        union all
        select next.tenant_id, t.number + 1
        from tenants t
        cross join lateral (
            select d.tenant_id from leasehold.jobs_done d
            where d.status <> 'succeeded' and d.tenant_id > t.tenant_id
            order by d.tenant_id limit 1
        ) next
        where t.number < 500
    )
    select t.tenant_id::text, dead.n
    from tenants t
    cross join lateral (
        select count(*) as n from (
            select from leasehold.jobs_done d
            where d.tenant_id = t.tenant_id and d.status = 'dead_letter' and d.status <> 'succeeded'
            order by d.id limit 1000
        ) first
    ) dead
    where dead.n > 0;
end $$;

-- The seconds for which due jobs of each definition have waited: the first job of each tenant and priority, and the first
-- that came due and was not promoted yet. Jobs that a pause or an inactive definition holds are left out.
create function leasehold.oldest_waits(now timestamptz)
returns table (definition text, seconds float8)
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_sort = on set jit = off set plan_cache_mode = force_custom_plan as $$
#variable_conflict use_column
begin
    return query
    with recursive paused as materialized (
        select l.kind, l.key from leasehold.limits l
        where l.pause_reason is not null and coalesce(l.paused_until > oldest_waits.now, true)
    ),
    active as materialized (
        select f.key from leasehold.definitions f
        where f.active and not exists (select from paused p where p.kind = 'definition' and p.key = f.key)
    ),
    heads as (
        select a.key, first.*
        from active a
        cross join lateral (
            select j.tenant_id, j.priority, greatest(j.queued_at, j.scheduled_for) as since from leasehold.jobs j
            where j.ready and j.definition = a.key
            order by j.tenant_id, j.priority, j.seq limit 1
        ) first
        union all
        select h.key, next.*
        from heads h
        cross join lateral (
            select j.tenant_id, j.priority, greatest(j.queued_at, j.scheduled_for) as since from leasehold.jobs j
            where j.ready and j.definition = h.key and (j.tenant_id, j.priority) > (h.tenant_id, h.priority)
            order by j.tenant_id, j.priority, j.seq limit 1
        ) next
    ),
    waits as (
        select h.key, h.tenant_id, h.since from heads h
        union all
        select a.key, late.tenant_id, late.scheduled_for
        from active a
        cross join lateral (
            select j.tenant_id, j.scheduled_for from leasehold.jobs j
            where j.status = 'queued' and not j.ready and j.definition = a.key
              and j.scheduled_for <= oldest_waits.now
            order by j.scheduled_for limit 1
        ) late
    )
    select w.key::text, greatest(0, date_part('epoch', oldest_waits.now - min(w.since)))
    from waits w
    where not exists (select from paused p where p.kind = 'tenant' and p.key = w.tenant_id)
    group by 1;
end $$;

-- The health of the database: the oldest transaction that keeps vacuum from removing rows, dead rows, the queue of
-- notifications, connections. A role without pg_read_all_stats sees transactions of its own sessions only.
create function leasehold.database_health() returns jsonb language sql volatile as $$
    with holders as (
        select a.xact_start as since from pg_stat_activity a
        where a.datname = current_database() and (a.backend_xmin is not null or a.backend_xid is not null)
          and a.backend_type = 'client backend' and a.pid <> pg_backend_pid() and a.query !~* '^\s*vacuum'
        union all
        select p.prepared from pg_prepared_xacts p where p.database = current_database()
    ),
    tables as (
        select c.relname as name, pg_stat_get_dead_tuples(c.oid) as dead, pg_stat_get_live_tuples(c.oid) as live
        from pg_class c
        where c.oid in ('leasehold.jobs'::regclass, 'leasehold.jobs_done'::regclass,
                        'leasehold.job_attempts'::regclass, 'leasehold.job_lines'::regclass,
                        'leasehold.workers'::regclass, 'leasehold.sleepers'::regclass)
    )
    select jsonb_build_object(
        'oldest_transaction',
        (select greatest(0, coalesce(date_part('epoch', leasehold.clock() - min(since)), 0)) from holders),
        'dead_rows', (select jsonb_object_agg(name, dead) from tables),
        'live_rows', (select jsonb_object_agg(name, live) from tables),
        'notification_queue', pg_notification_queue_usage(),
        'connections', (select count(*) from pg_stat_activity where backend_type = 'client backend'),
        'max_connections', current_setting('max_connections')::integer)
$$;

-- Measures the fleet, as the document that leasehold.model.fleet_snapshot reads.
create function leasehold.fleet_figures() returns jsonb language plpgsql volatile
set jit = off set plan_cache_mode = force_custom_plan as $$
declare
    now constant timestamptz := leasehold.clock();
begin
    return (
        with depths as materialized (
            select d.tenant_id, d.definition, substr(d.figure, 7) as state, d.n from leasehold.depths() d
            union all
            select d.tenant_id, null, 'dead_letter', d.n from leasehold.dead_letters() d
        ),
        -- The tenants that keep their names: NAMED_TENANTS of leasehold.model.fleet_snapshot.
        named as materialized (
            select d.tenant_id from depths d group by 1 order by sum(d.n) desc, d.tenant_id limit 100
        ),
        living as materialized (
            select w.slots, w.definitions from leasehold.workers w where w.lease_expires_at > now
        )
        select jsonb_build_object(
            'by_tenant', (
                select coalesce(jsonb_agg(jsonb_build_array(t.tenant_id, t.state, t.n)), '[]')
                from (
                    select n.tenant_id, d.state, sum(d.n) as n
                    from depths d left join named n using (tenant_id) group by 1, 2
                ) t
            ),
            'by_definition', (
                select coalesce(jsonb_agg(jsonb_build_array(t.definition, t.state, t.n)), '[]')
                from (
                    select d.definition, d.state, sum(d.n) as n
                    from (
                        select definition, state, n from depths where definition is not null
                        union all
                        select key, 'ready', 0 from leasehold.definitions where active
                    ) d
                    group by 1, 2
                ) t
            ),
            'oldest', (
                select coalesce(jsonb_object_agg(o.definition, o.seconds), '{}')
                from leasehold.oldest_waits(now) o
            ),
            'workers', (select count(*) from living),
            'slots', (select coalesce(sum(slots), 0) from living),
            'unserved', to_jsonb(array(
                select f.key from leasehold.definitions f
                where f.active and not exists (select from living where f.key = any (living.definitions))
                order by f.key limit 100
            )),
            'overdue', greatest(0, coalesce(date_part('epoch', now - (
                select t.next_fire_at from leasehold.triggers t
                where t.next_fire_at is not null order by t.next_fire_at limit 1)), 0)),
            'database', leasehold.database_health())
    );
end $$;

-- Returns the latest figures and their age. Measures them before, if they are older than `max_age` and no other session
-- does: that one holds the row's lock, and no session waits for it. A measurement that took long is repeated less often,
-- so that all of them together take at most a hundredth of one processor.
create function leasehold.read_fleet(max_age interval, out age float8, out figures jsonb)
language plpgsql volatile as $$
declare
    now constant timestamptz := leasehold.clock();
begin
    perform from leasehold.fleet_snapshot s
    where s.taken_at not between now - greatest(max_age, 100 * s.took) and now + interval '1 minute'
    for update skip locked;
    if found then
        update leasehold.fleet_snapshot s set taken_at = now, figures = leasehold.fleet_figures();
        update leasehold.fleet_snapshot s set took = leasehold.clock() - now;
    end if;
    select date_part('epoch', leasehold.clock() - s.taken_at), s.figures into age, figures
    from leasehold.fleet_snapshot s;
end $$;
