-- Grants five roles what working, serving the HTTP API, producing, reading and acting for one tenant need, and takes away
-- what else they had in the schema.
-- The owner of the schema runs this script after each migration: a new table has no grants yet.
--
-- The owner itself needs no grant. Only the owner can migrate, change functions, and delete entries of the audit log.
-- Functions that are not named here may be called by every role that may use the schema. They run with the rights of
-- that role, so they do nothing that its grants don't allow.

begin;

-- A grant by a role that is not the owner would be skipped with a warning.
do $$ begin
    if not exists (
        select from pg_namespace n
        where n.oid = to_regnamespace('leasehold') and pg_has_role(n.nspowner, 'usage')
    ) then
        raise exception 'the role % does not own the schema %. Nothing was granted.', current_user, 'leasehold'
            using hint = 'Run this script as the migrating role, after the migrations';
    end if;
end $$;

revoke all on all tables in schema :"schema" from :"worker", :"server", :"producer", :"reader", :"tenant";
revoke all on all sequences in schema :"schema" from :"worker", :"server", :"producer", :"reader", :"tenant";
revoke all on all functions in schema :"schema" from :"worker", :"server", :"producer", :"reader", :"tenant";
revoke all on schema :"schema" from :"worker", :"server", :"producer", :"reader", :"tenant";

grant usage on schema :"schema" to :"worker", :"server", :"producer", :"reader", :"tenant";
grant select on leasehold.migrations, leasehold.settings, leasehold.tenants, leasehold.definitions,
    leasehold.definition_versions to :"worker", :"server", :"producer", :"reader", :"tenant";

-- Reading: everything about jobs, workers, limits, definitions and triggers. No write at all.
grant select on leasehold.jobs, leasehold.jobs_done, leasehold.job_attempts, leasehold.job_lines,
    leasehold.job_records, leasehold.limits, leasehold.workers, leasehold.triggers, leasehold.trigger_decisions,
    leasehold.events, leasehold.worker_names, leasehold.audit_log, leasehold.operations, leasehold.series_minutes,
    leasehold.series_hours, leasehold.series_progress, leasehold.usage_hours, leasehold.fleet_snapshot
    to :"worker", :"server", :"reader";
-- The sequence tells live pages that there are new jobs.
grant select on leasehold.jobs_seq to :"worker", :"server", :"reader";
-- Which job holds a dedupe key, for a dry run of an event.
grant select (tenant_id, dedupe_hash, job_id, expires_at) on leasehold.dedupe_holds to :"reader";

-- Producing: a producer adds jobs that wait. It can't read payloads, and can't claim: it may not write worker_id, and a
-- running job must have one. Keys and ids are looked up by functions that run as the owner.
grant execute on function leasehold.enqueue, leasehold.enqueue_jobs, leasehold.wake_workers
    to :"producer", :"worker", :"server";
-- It emits events, too. The functions read triggers and write decisions as the owner.
grant execute on function leasehold.emit, leasehold.write_event, leasehold.place_event
    to :"producer", :"worker", :"server";
grant insert on leasehold.tenants to :"producer", :"worker", :"server";
grant insert (
    id, scheduled_for, queued_at, deadline, version, max_attempts, priority, ready, tenant_id, definition, status,
    payload, source, source_ref, correlation_id, created_by, trace_context
) on leasehold.jobs to :"producer";
grant select (id, tenant_id, definition, scheduled_for, awaited), update (awaited) on leasehold.jobs to :"producer";
grant usage on leasehold.jobs_seq to :"producer", :"worker", :"server";

-- A producer wakes a worker that sleeps: it locks the sleep's row, deletes it, and notes how many sleeps are over. A
-- lock by FOR UPDATE asks for UPDATE on some column; an id that is generated always can't be changed by it.
grant select, delete, update (id) on leasehold.sleepers to :"producer", :"worker", :"server";
grant select (id) on leasehold.workers to :"producer";
grant select on
    leasehold.sleeps_begun_0, leasehold.sleeps_begun_1, leasehold.sleeps_begun_2, leasehold.sleeps_begun_3,
    leasehold.sleeps_begun_4, leasehold.sleeps_begun_5, leasehold.sleeps_begun_6, leasehold.sleeps_begun_7
    to :"producer", :"worker", :"server";
grant select, update on
    leasehold.sleeps_over_0, leasehold.sleeps_over_1, leasehold.sleeps_over_2, leasehold.sleeps_over_3,
    leasehold.sleeps_over_4, leasehold.sleeps_over_5, leasehold.sleeps_over_6, leasehold.sleeps_over_7
    to :"producer", :"worker", :"server";

-- Working: a worker claims and finishes every job, prunes, evicts, and registers definitions. Handlers enqueue, cancel and
-- retry by its connections.
grant insert, update, delete on leasehold.jobs to :"worker", :"server";
grant insert, delete, update (prune_after) on leasehold.jobs_done to :"worker", :"server"; -- UPDATE only for its locks
grant insert, delete on leasehold.job_attempts, leasehold.job_lines to :"worker", :"server";
-- UPDATE only for its locks.
grant select, delete, update (expires_at) on leasehold.dedupe_holds to :"worker", :"server";
grant insert, delete, update (last_seen_at, lease_expires_at, drains_since) on leasehold.workers to :"worker", :"server";
-- UPDATE only for its locks.
grant insert, delete, update (started_at) on leasehold.worker_names to :"worker", :"server";
grant insert, update (wakes_at) on leasehold.sleepers to :"worker", :"server";
grant usage on
    leasehold.sleeps_begun_0, leasehold.sleeps_begun_1, leasehold.sleeps_begun_2, leasehold.sleeps_begun_3,
    leasehold.sleeps_begun_4, leasehold.sleeps_begun_5, leasehold.sleeps_begun_6, leasehold.sleeps_begun_7
    to :"worker", :"server";
-- Where the running jobs of a capped scope begin.
grant update (running_from) on leasehold.limits to :"worker", :"server";
-- It can't write overrides: a sync keeps what administrators have set.
grant insert (key, version, declared, created_at, updated_at), update (version, declared, updated_at)
    on leasehold.definitions to :"worker", :"server";
grant insert on leasehold.definition_versions to :"worker", :"server";
grant execute on function leasehold.finish_within to :"worker", :"server";

-- People and tools that act with its role leave entries in the audit log. It changes and deletes none.
grant insert on leasehold.audit_log to :"worker", :"server";

-- A worker adds up usage, and figures for charts. UPDATE on the rows of figures only for its locks.
grant insert, update, delete on leasehold.usage_hours to :"worker", :"server";
grant insert, delete, update (at) on leasehold.series_minutes, leasehold.series_hours to :"worker", :"server";
grant update (minutes, hours, usage_until, noted_at, noted_by) on leasehold.series_progress to :"worker", :"server";
-- It measures the fleet for gauges.
grant update (taken_at, took, figures) on leasehold.fleet_snapshot to :"worker", :"server";

-- A worker fires schedules, expands events and syncs the triggers of its code; its handlers may change those of tenants.
-- A trigger that is deleted stays, and is marked; it goes with its tenant only.
grant insert, update on leasehold.triggers to :"worker", :"server";
grant insert, delete, update (why) on leasehold.trigger_decisions to :"worker", :"server"; -- UPDATE only for its locks
grant insert, delete, update (expanded_at) on leasehold.events to :"worker", :"server";

-- A worker runs batches of operations, the removal of a tenant included.
grant insert, update on leasehold.operations to :"worker", :"server";
grant delete, update (deleted_by) on leasehold.tenants to :"worker", :"server";
grant delete on leasehold.triggers, leasehold.limits, leasehold.api_tokens to :"worker", :"server";
grant delete, select (tenant_id) on leasehold.saved_views to :"worker", :"server";
grant select (id, tenant_id) on leasehold.api_tokens to :"worker", :"server"; -- no hashes

-- Serving the HTTP API: all that a worker can, since workers over HTTP claim and finish by it; and all that administrators
-- do over HTTP with tokens, limits, pauses and overrides. It changes no entry of the audit log, and replaces no payload.
grant select, insert, update on leasehold.api_tokens to :"server";
grant select, insert, delete, update (expires_at) on leasehold.console_sessions to :"server";
grant select, insert, update on leasehold.saved_views to :"server";
grant insert, update on leasehold.limits to :"server";
grant update (active, overrides, revision) on leasehold.definitions to :"server";

-- Acting for one tenant at a time: all that a tenant's handle does, within the rows of the tenant that the transaction
-- has set. It claims and finishes nothing: it may not write worker_id. Jobs with keys and events are placed by functions
-- that run as the owner, and check the tenant.
grant select on leasehold.jobs, leasehold.jobs_done, leasehold.job_attempts, leasehold.job_lines, leasehold.triggers,
    leasehold.trigger_decisions, leasehold.events, leasehold.worker_names, leasehold.series_minutes,
    leasehold.series_hours, leasehold.series_progress, leasehold.usage_hours to :"tenant";
grant select (tenant_id, dedupe_hash, job_id, expires_at) on leasehold.dedupe_holds to :"tenant";
-- It begins and aborts operations, and reads and adds entries of the audit log. Workers run the batches.
grant select, insert, update (state, ended_at, due_at) on leasehold.operations to :"tenant";
grant update (deleted_by) on leasehold.tenants to :"tenant";
grant select, insert on leasehold.audit_log to :"tenant";
grant select (id, lease_expires_at) on leasehold.workers to :"tenant";
grant execute on function leasehold.enqueue_own_jobs, leasehold.write_own_event, leasehold.place_own_event to :"tenant";
grant insert on leasehold.tenants to :"tenant";
grant insert (
    id, seq, scheduled_for, queued_at, deadline, version, attempt, max_attempts, forgiven, priority, ready, tenant_id,
    definition, status, payload, source, source_ref, correlation_id, created_by, dedupe_held, dedupe_hash, dedupe_key,
    last_error, last_error_code, trace_context
) on leasehold.jobs to :"tenant";
grant delete, update (scheduled_for, ready, priority, seq, cancel_requested_at, awaited) on leasehold.jobs to :"tenant";
grant insert, delete, update (prune_after) on leasehold.jobs_done to :"tenant"; -- UPDATE only for its locks
grant insert on leasehold.job_attempts to :"tenant";
grant insert, update on leasehold.triggers to :"tenant";
grant usage on leasehold.jobs_seq to :"tenant";
grant select, delete, update (id) on leasehold.sleepers to :"tenant";
grant select on
    leasehold.sleeps_begun_0, leasehold.sleeps_begun_1, leasehold.sleeps_begun_2, leasehold.sleeps_begun_3,
    leasehold.sleeps_begun_4, leasehold.sleeps_begun_5, leasehold.sleeps_begun_6, leasehold.sleeps_begun_7
    to :"tenant";
grant select, update on
    leasehold.sleeps_over_0, leasehold.sleeps_over_1, leasehold.sleeps_over_2, leasehold.sleeps_over_3,
    leasehold.sleeps_over_4, leasehold.sleeps_over_5, leasehold.sleeps_over_6, leasehold.sleeps_over_7
    to :"tenant";

-- Row-level security: every table with a tenant shows its rows to all roles, but to the role of tenants only those of
-- the tenant in leasehold_session.tenant; none if that is not set, or empty. The policy for all is always true, which
-- costs no plan anything. The other one is restrictive and names its role, so it holds beside the first one.
--
-- Each statement takes an exclusive lock, so that a table which has its policies is left alone.
set local leasehold_roles.tenant = :'tenant';
set local lock_timeout = '5s';

do $$
declare
    tenant constant oid := to_regrole(quote_ident(current_setting('leasehold_roles.tenant')));
    owned record;
begin
    for owned in
        select c.oid::regclass as name, c.oid, c.relrowsecurity, a.attname as key
        from pg_class c join pg_attribute a on a.attrelid = c.oid and not a.attisdropped
        where c.relnamespace = to_regnamespace('leasehold') and c.relkind in ('r', 'p')
          and a.attname = case c.relname when 'tenants' then 'id' else 'tenant_id' end
    loop
        if not exists (select from pg_policy p where p.polrelid = owned.oid and p.polname = 'all_rows') then
            execute format('create policy all_rows on %s using (true) with check (true)', owned.name);
        end if;
        if not owned.relrowsecurity then
            execute format('alter table %s enable row level security', owned.name);
        end if;
        if not exists (
            select from pg_policy p
            where p.polrelid = owned.oid and p.polname = 'own_tenant' and p.polroles = array[tenant]
        ) then
            execute format('drop policy if exists own_tenant on %s', owned.name);
            execute format(
                $policy$create policy own_tenant on %s as restrictive to %I
                using (%I = nullif(current_setting('leasehold_session.tenant', true), ''))
                with check (%I = nullif(current_setting('leasehold_session.tenant', true), ''))$policy$,
                owned.name, current_setting('leasehold_roles.tenant'), owned.key, owned.key);
        end if;
    end loop;
    -- A view with the rights of its owner would show the rows of all tenants.
    if exists (select from pg_class where oid = 'leasehold.job_records'::regclass
               and 'security_invoker=true' = any (reloptions)) then
        execute format('grant select on leasehold.job_records to %I', current_setting('leasehold_roles.tenant'));
    end if;
end $$;

commit;
