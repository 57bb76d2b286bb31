-- Jobs carry the trace context of the request that enqueued them, for OpenTelemetry.
--
-- The column holds up to three parts, with a space between them: the W3C traceparent of the enqueue, that of the latest
-- attempt that failed (or -), and the tracestate. It is null while nothing is traced; then no statement writes it. The
-- functions below are those of 0001 with this column. The release before writes null, and traces nothing.
-- needs: 0001

alter table leasehold.jobs add column trace_context text;
alter table leasehold.jobs_done add column trace_context text;
alter type leasehold.new_job add attribute trace_context text;

-- Returns the context of a job after an attempt with this span, as leasehold.model.trace_context does; without a span,
-- the context as it is.
create function leasehold.trace_after(context text, span text) returns text
language sql immutable parallel safe as $$
    select coalesce(regexp_replace(context, '^([^ ]+)( [^ ]+)?', '\1 ' || span), span, context)
$$;

-- Fills in values from the definition and the clock. `at` becomes the due time.
create or replace function leasehold.with_defaults(jobs leasehold.new_job[], now timestamptz)
returns leasehold.new_job[] language plpgsql stable as $$
#variable_conflict use_variable
begin
    return (select array_agg(
        row (
            n.definition, v.version, n.payload, n.id, coalesce(n.priority, v.priority),
            coalesce(n.max_attempts, v.max_attempts), null, coalesce(n.at, now + coalesce(n.delay, interval '0')),
            n.deadline, coalesce(n.dedupe, case when n.dedupe_key is not null then 'active' end), n.dedupe_key,
            n.dedupe_for, coalesce(n.on_conflict, 'return'), coalesce(n.source, 'manual'), n.source_ref,
            n.correlation_id, n.created_by, left(n.trace_context, 1000)
        )::leasehold.new_job order by n.ordinality)
    from unnest(jobs) with ordinality n
    join leasehold.definitions d on d.key = n.definition
    join leasehold.definition_versions v on v.key = d.key and v.version = coalesce(n.version, d.version));
end $$;

-- Inserts a job. Returns false if its key is taken.
create or replace function leasehold.insert_job(
    tenant text, job leasehold.new_job, id uuid, seq bigint, hash bytea, now timestamptz
) returns boolean language plpgsql volatile as $$
begin
    insert into leasehold.jobs (
        id, seq, scheduled_for, queued_at, deadline, version, max_attempts, priority, ready, tenant_id, definition,
        status, payload, source, source_ref, correlation_id, created_by, dedupe_held, dedupe_hash, dedupe_key,
        trace_context)
    values (
        insert_job.id, insert_job.seq, job.at, now, job.deadline, job.version, job.max_attempts, job.priority,
        job.at <= now, tenant, job.definition, 'queued', job.payload, job.source, job.source_ref, job.correlation_id,
        job.created_by, job.dedupe <> 'active', hash, job.dedupe_key, job.trace_context)
    on conflict do nothing;
    return found;
end $$;

-- Replaces the values of a job that still waits. It keeps its id, its key and its history, and has all its attempts
-- before it. Waits for a worker that is just claiming the job.
create or replace function leasehold.replace_waiting(
    tenant text, holder uuid, job leasehold.new_job, seq bigint, now timestamptz
) returns boolean language plpgsql volatile as $$
begin
    update leasehold.jobs j
    set definition = job.definition, version = job.version, payload = job.payload, priority = job.priority,
        max_attempts = job.max_attempts, scheduled_for = job.at, ready = job.at <= now, deadline = job.deadline,
        source = job.source, source_ref = job.source_ref, correlation_id = job.correlation_id,
        created_by = job.created_by, seq = replace_waiting.seq, forgiven = j.attempt, last_error = null,
        last_error_code = null, trace_context = job.trace_context
    where j.tenant_id = tenant and j.id = holder and j.status = 'queued';
    return found;
end $$;

-- Enqueues all jobs or none, and returns the job that answers each. All callers take locks in the order of ids and then
-- of keys, so that two batches can't wait for each other.
create or replace function leasehold.place_jobs(
    tenant text, given leasehold.new_job[], wakes boolean, validate boolean)
returns table (number bigint, job_id uuid, created boolean, replaced boolean) language plpgsql volatile as $$
#variable_conflict use_variable
declare
    now constant timestamptz := leasehold.clock();
    jobs leasehold.new_job[];
    ids uuid[];
    seqs bigint[];
    -- By number, too: a key's hash, the job that is the answer, whether it is new, whether it was replaced, and the
    -- earlier job of this call with the same id.
    hashes bytea[];
    places uuid[];
    made boolean[];
    changed boolean[];
    same_as bigint[];
    earlier bigint;
    job leasehold.new_job;
    holder uuid;
    definitions text[];
    dues timestamptz[];
begin
    perform leasehold.require_tenant(tenant);
    if cardinality(given) = 0 then
        return;
    end if;
    perform leasehold.require_usable(given);
    perform leasehold.require_accepted(given);
    if not exists (select from leasehold.tenants t where t.id = tenant) then
        if (select s.strict_tenants from leasehold.settings s) then
            perform leasehold.refuse(
                'LH-1006',
                format('tenant %L was never registered, and strict tenants are on. Nothing was enqueued.', tenant),
                'Correct its name, or run: leasehold tenants --add ' || tenant);
        end if;
        declare
            timeout constant text := current_setting('lock_timeout');
        begin
            perform set_config('lock_timeout', '1ms', true);
            insert into leasehold.tenants (id, created_at) values (tenant, now) on conflict do nothing;
            perform set_config('lock_timeout', timeout, true);
        exception
            -- The caller's older snapshot can't see the row that another transaction has added since.
            when serialization_failure then null;
            -- Another transaction has added the row and is still open, maybe for hours: a later enqueue looks again.
            when lock_not_available then null;
        end;
    end if;
    jobs := leasehold.with_defaults(given, now);
    if validate then
        perform leasehold.require_valid(jobs);
    end if;
    ids := array(select coalesce(j.id, leasehold.uuid7()) from unnest(jobs) j);
    seqs := array(select nextval('leasehold.jobs_seq') from unnest(jobs) j);
    hashes := array(
        select case when j.dedupe is not null then leasehold.dedupe_hash(tenant, j) end from unnest(jobs) j);
    places := array_fill(null::uuid, array[cardinality(jobs)]);
    made := array_fill(false, array[cardinality(jobs)]);
    changed := made;
    same_as := array_fill(null::bigint, array[cardinality(jobs)]);

    for number in
        select n.ordinality from unnest(jobs) with ordinality n where n.id is not null
        order by leasehold.id_hash(n.id), n.ordinality
    loop
        job := jobs[number];
        if not leasehold.reserve_id(tenant, job) then
            if ids[earlier] = job.id then
                same_as[number] := earlier;
            else
                places[number] := job.id;
            end if;
        else
            earlier := number;
        end if;
    end loop;

    for number in
        select n.number from unnest(hashes, jobs) with ordinality as n (
            hash, definition, version, payload, id, priority, max_attempts, delay, at, deadline, dedupe, dedupe_key,
            dedupe_for, on_conflict, source, source_ref, correlation_id, created_by, trace_context, number)
        where n.dedupe is not null order by n.dedupe = 'active', n.hash, n.number
    loop
        continue when places[number] is not null or same_as[number] is not null;
        job := jobs[number];
        for round in 1..5 loop
            holder := null;
            if job.dedupe <> 'active' then
                holder := leasehold.hold_key(tenant, hashes[number], ids[number], now + job.dedupe_for, now);
            end if;
            if holder is null
                and leasehold.insert_job(tenant, job, ids[number], seqs[number], hashes[number], now)
            then
                places[number] := ids[number];
                made[number] := true;
                exit;
            elsif holder is null then
                select j.id into holder from leasehold.jobs j
                where j.tenant_id = tenant and j.dedupe_hash = hashes[number] and not j.dedupe_held;
                continue when holder is null;
            end if;
            changed[number] := leasehold.resolve_conflict(tenant, job, holder, seqs[number], now);
            continue when changed[number] is null;
            places[number] := holder;
            -- The job was not created: its id is free for another request.
            delete from leasehold.dedupe_holds h
            where job.id is not null and h.tenant_id = tenant and h.dedupe_hash = leasehold.id_hash(job.id);
            exit;
        end loop;
        if places[number] is null then
            raise exception using errcode = '40001', message = 'a dedupe key was taken and freed by others';
        end if;
        if made[number] or changed[number] then
            definitions := definitions || job.definition;
            dues := dues || job.at;
        end if;
    end loop;

    with rest as (
        insert into leasehold.jobs as j (
            id, seq, scheduled_for, queued_at, deadline, version, max_attempts, priority, ready, tenant_id, definition,
            status, payload, source, source_ref, correlation_id, created_by, trace_context)
        select n.new_id, n.seq, n.at, now, n.deadline, n.version, n.max_attempts, n.priority, n.at <= now, tenant,
               n.definition, 'queued', n.payload, n.source, n.source_ref, n.correlation_id, n.created_by,
               n.trace_context
        from unnest(ids, seqs, places, same_as, jobs) as n (
            new_id, seq, place, same_as, definition, version, payload, id, priority, max_attempts, delay, at, deadline,
            dedupe, dedupe_key, dedupe_for, on_conflict, source, source_ref, correlation_id, created_by,
            trace_context)
        where n.dedupe is null and n.place is null and n.same_as is null
        returning j.definition, j.scheduled_for
    )
    select array_agg(lane.definition), array_agg(lane.due) into definitions, dues
    from (
        select work.definition, min(work.due) as due
        from (select * from rest union all select * from unnest(definitions, dues)) as work (definition, due)
        group by work.definition
    ) lane;
    if wakes and definitions is not null then
        perform leasehold.wake(definitions, array_fill(tenant, array[cardinality(definitions)]), dues);
    end if;

    for number in select n.ordinality from unnest(same_as) with ordinality n (earlier) where n.earlier is not null loop
        places[number] := coalesce(places[same_as[number]], ids[same_as[number]]);
    end loop;
    return query
        select n.number, coalesce(n.place, n.id), n.made or n.place is null, n.changed
        from unnest(ids, places, made, changed) with ordinality as n (id, place, made, changed, number);
end $$;

-- Enqueues one job from SQL: `select * from leasehold.enqueue('acme', 'sync_folder', '{"path": "/"}')`.
create or replace function leasehold.enqueue(
    tenant          text,
    key             text,
    payload         jsonb default '{}',
    priority        integer default null,
    max_attempts    integer default null,
    delay           interval default null,
    at              timestamptz default null,
    deadline        timestamptz default null,
    dedupe_key      text default null,
    dedupe          text default null,
    dedupe_for      interval default null,
    on_conflict     text default null,
    id              uuid default null,
    correlation_id  text default null,
    created_by      text default null,
    out job_id      uuid,
    out created     boolean,
    out replaced    boolean
) language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
begin
    perform leasehold.force_sync_commit();
    select p.job_id, p.created, p.replaced into job_id, created, replaced
    from leasehold.place_jobs(tenant, array[row (
        key, null, payload, id, priority, max_attempts, delay, at, deadline, dedupe, dedupe_key, dedupe_for,
        on_conflict, 'manual', null, correlation_id, created_by, null
    )::leasehold.new_job], wakes => true, validate => true) p;
end $$;

-- Ends a claim as succeeded within the transaction that its handler writes in: both are committed, or neither. It takes
-- one JSON object, since every driver writes parameters in its own way. It answers
--     finished   and committed with the transaction
--     fenced     the claim is lost, or its worker's registration: roll back
--     ended      this is not the transaction that was begun for the claim: the handler has ended that one
-- It runs as its owner: the role of a handler's connection needs no rights on these tables, only EXECUTE.
create or replace function leasehold.finish_within(claim jsonb) returns text language plpgsql volatile
security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    gone leasehold.jobs;
    moment timestamptz := leasehold.clock();
begin
    if current_setting('leasehold_effects.claim', true) is distinct from claim ->> 'mark' then
        return 'ended';
    end if;
    perform leasehold.force_sync_commit();
    -- From here to the commit the job's row is locked. A process that is stopped in between must not keep it locked.
    perform set_config('idle_in_transaction_session_timeout', '10s', true);
    delete from leasehold.jobs j
    where j.tenant_id = claim ->> 'tenant' and j.id = (claim ->> 'job')::uuid
      and j.attempt = (claim ->> 'attempt')::integer and j.worker_id = (claim ->> 'worker')::uuid
      and j.claim_batch = (claim ->> 'batch')::bigint
      and exists (select from leasehold.workers w where w.id = j.worker_id)
    returning j.* into gone;
    if not found then
        return 'fenced';
    end if;
    insert into leasehold.jobs_done (
        include(moved_columns),
        trace_context, worker_id, cancel_requested_at, status, finished_at, prune_after, result, last_error,
        last_error_code
    )
    select include(moved_columns),
           trace_context, worker_id, cancel_requested_at, 'succeeded', moment,
           moment + make_interval(secs => (claim ->> 'keep')::float), claim -> 'result', last_error, last_error_code
    from (select (gone).*) job;
    perform leasehold.wake_for_freed(array[gone.tenant_id], array[gone.definition]);
    if gone.awaited then
        perform pg_notify(leasehold.channel_for_results(), '');
    end if;
    return 'finished';
end $$;
