-- Operations: work on many jobs that outlives the process that asked for it. And the life of a tenant, to its end.
--
-- An operation is one row. A runner locks the row, does one batch and moves the row on, all in one transaction: no batch
-- is done twice, and after a crash any other runner goes on from the last batch that was committed.
--
-- The release before keeps working: it runs no operations, and a tenant that is being deleted refuses its enqueues, too,
-- except for those of one job by its shortest statement. A removal finds those jobs before it ends.
-- needs: 0001

create table leasehold.operations (
    id            uuid primary key,
    kind          text not null check (kind in ('retry', 'cancel', 'delete_tenant')),
    tenant_id     text collate "C" not null,
    state         text not null check (state in ('planned', 'running', 'aborting', 'aborted', 'done', 'failed')),
    job_filter    jsonb not null default '{}',
    pace          double precision check (pace > 0),     -- jobs a second; null: as fast as it goes
    canary        boolean not null default false,        -- the rest only after one job has succeeded
    canary_job    uuid,
    place         text,                                  -- up to here it is done; how it is written is up to its kind
    total         bigint,                                -- jobs that matched at the beginning; null: not counted
    total_is_cap  boolean not null default false,        -- there were more
    done          bigint not null default 0,
    skipped       bigint not null default 0,
    refused       bigint not null default 0,
    details       jsonb not null default '{}',           -- counts by reason, or by what was removed
    error         text check (length(error) <= 1000),
    created_by    text check (length(created_by) <= 1000),
    created_at    timestamptz not null,
    started_at    timestamptz,
    ended_at      timestamptz,
    due_at        timestamptz,                           -- of the next batch; null: it has ended
    constraint ended_or_due check ((due_at is null) = (ended_at is not null))
) with (fillfactor = 50);

create index operations_due on leasehold.operations (due_at) where due_at is not null;
create index operations_of_tenant on leasehold.operations (tenant_id, id);

-- Lists deleted triggers of a tenant, which goes with all of them.
create index triggers_deleted on leasehold.triggers (tenant_id, id) where deleted_at is not null;

-- The operation that deletes the tenant: while there is one, nothing new is accepted for it.
alter table leasehold.tenants add column deleted_by uuid;

-- Refuses a tenant id that none can have. It was a part of require_tenant.
create function leasehold.require_tenant_id(tenant text) returns void language plpgsql immutable as $$
declare
    spaces constant text := '\u0009-\u000d\u001c-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000';
begin
    if tenant is null or length(tenant) not between 1 and 100
        or tenant ~ ('^[' || spaces || ']|[' || spaces || ']$|[\u0001-\u001f\u007f-\u009f]')
    then
        perform leasehold.refuse(
            'LH-1000',
            format('%s is not a tenant id: 1 to 100 characters, no control characters, no outer spaces.',
                   coalesce(quote_literal(left(tenant, 120)), 'null')),
            'Nothing was enqueued. Use the tenant''s slug or UUID.');
    elsif tenant ~ leasehold.hidden_characters() then
        perform leasehold.refuse(
            'LH-1000',
            format('that is not a tenant id: it has %s, a character that can''t be seen.',
                   leasehold.hidden_character(tenant)),
            'Nothing was enqueued. Use the tenant''s slug or UUID.');
    end if;
end $$;

-- Refuses a tenant id as leasehold.model.job.tenant_id does, and a tenant that is being deleted.
create or replace function leasehold.require_tenant(tenant text) returns void language plpgsql stable as $$
begin
    perform leasehold.require_tenant_id(tenant);
    if exists (select from leasehold.tenants t where t.id = tenant and t.deleted_by is not null) then
        perform leasehold.refuse(
            'LH-1015', format('tenant %L is being deleted. Nothing was written.', tenant),
            'Stop its producers. Once it is deleted, its name can be used again.');
    end if;
end $$;

alter function leasehold.require_event(text, text, jsonb, text, text) stable;

create or replace function leasehold.wake_workers(tenant text, key text) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
begin
    perform leasehold.require_tenant_id(tenant);
    return leasehold.wake_for_one(key, tenant, null);
end $$;

-- As in 0001, and tells of a tenant that is being deleted, too.
create or replace function leasehold.enqueue_jobs(
    tenant text, jobs jsonb, wakes boolean default true, validate boolean default true)
returns table (
    number bigint, job_id uuid, created boolean, replaced boolean, code text, happened text, fix text, about text
) language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
begin
    perform leasehold.force_sync_commit();
    return query
        select p.number, p.job_id, p.created, p.replaced, null::text, null::text, null::text, null::text
        from leasehold.place_jobs(
            tenant, array(select j from jsonb_populate_recordset(null::leasehold.new_job, jobs) j), wakes, validate) p;
exception
    when sqlstate 'L1000' or sqlstate 'L1001' or sqlstate 'L1002' or sqlstate 'L1005' or sqlstate 'L1006'
        or sqlstate 'L1010' or sqlstate 'L1013' or sqlstate 'L1015'
    then
        get stacked diagnostics
            code = returned_sqlstate, happened = message_text, fix = pg_exception_hint, about = pg_exception_detail;
        return next;
    when data_exception then
        -- A value that its column can't hold: a moment that is not a date, a number beyond 32 bits, an id that is not a
        -- UUID. Or `jobs` is not an array of objects.
        code := 'L1000';
        happened := format('LH-1000: the jobs can''t be read: %s.', left(sqlerrm, 300));
        fix := 'Nothing was enqueued. Correct the values.';
        about := '';
        return next;
end $$;

-- As in 0003, and writes nothing for a tenant that is being deleted: `answer` is 'deleted' then.
create or replace function leasehold.write_event(
    tenant text, id uuid, name text, data jsonb, correlation_id text, created_by text,
    out emitted_at timestamptz, out triggers text, out answer text
) language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set plan_cache_mode = force_generic_plan as $$
begin
    emitted_at := leasehold.clock();
    if exists (select from leasehold.tenants t where t.id = tenant and t.deleted_by is not null) then
        answer := 'deleted';
        return;
    end if;
    triggers := leasehold.triggers_of(tenant, name, emitted_at);
    if triggers is null then
        perform leasehold.force_sync_commit();
        answer := leasehold.insert_event(
            tenant, id, name, data, correlation_id, created_by, emitted_at, emitted_at);
    end if;
end $$;
