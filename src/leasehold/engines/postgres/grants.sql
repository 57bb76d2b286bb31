-- Grants three roles what working, producing and reading need, and takes away what else they had in the schema.
-- The owner of the schema runs this script after each migration: a new table has no grants yet.
--
-- The owner itself needs no grant. Only the owner can migrate, change functions, and limit, pause or activate.
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

revoke all on all tables in schema :"schema" from :"worker", :"producer", :"reader";
revoke all on all sequences in schema :"schema" from :"worker", :"producer", :"reader";
revoke all on all functions in schema :"schema" from :"worker", :"producer", :"reader";
revoke all on schema :"schema" from :"worker", :"producer", :"reader";

grant usage on schema :"schema" to :"worker", :"producer", :"reader";
grant select on leasehold.migrations, leasehold.settings, leasehold.tenants, leasehold.definitions,
    leasehold.definition_versions to :"worker", :"producer", :"reader";

-- Reading: everything about jobs, workers, limits, definitions and triggers. No write at all.
grant select on leasehold.jobs, leasehold.jobs_done, leasehold.job_attempts, leasehold.job_lines,
    leasehold.job_records, leasehold.limits, leasehold.workers, leasehold.triggers, leasehold.trigger_decisions,
    leasehold.events, leasehold.worker_names
    to :"worker", :"reader";
-- Which job holds a dedupe key, for a dry run of an event.
grant select (tenant_id, dedupe_hash, job_id, expires_at) on leasehold.dedupe_holds to :"reader";

-- Producing: a producer adds jobs that wait. It can't read payloads, and can't claim: it may not write worker_id, and a
-- running job must have one. Keys and ids are looked up by functions that run as the owner.
grant execute on function leasehold.enqueue, leasehold.enqueue_jobs, leasehold.wake_workers to :"producer", :"worker";
-- It emits events, too. The functions read triggers and write decisions as the owner.
grant execute on function leasehold.emit, leasehold.write_event, leasehold.place_event to :"producer", :"worker";
grant insert on leasehold.tenants to :"producer", :"worker";
grant insert (
    id, scheduled_for, queued_at, deadline, version, max_attempts, priority, ready, tenant_id, definition, status,
    payload, source, source_ref, correlation_id, created_by
) on leasehold.jobs to :"producer";
grant select (id, tenant_id, definition, scheduled_for, awaited), update (awaited) on leasehold.jobs to :"producer";
grant usage on leasehold.jobs_seq to :"producer", :"worker";

-- A producer wakes a worker that sleeps: it locks the sleep's row, deletes it, and notes how many sleeps are over. A
-- lock by FOR UPDATE asks for UPDATE on some column; an id that is generated always can't be changed by it.
grant select, delete, update (id) on leasehold.sleepers to :"producer", :"worker";
grant select (id) on leasehold.workers to :"producer";
grant select on
    leasehold.sleeps_begun_0, leasehold.sleeps_begun_1, leasehold.sleeps_begun_2, leasehold.sleeps_begun_3,
    leasehold.sleeps_begun_4, leasehold.sleeps_begun_5, leasehold.sleeps_begun_6, leasehold.sleeps_begun_7
    to :"producer", :"worker";
grant select, update on
    leasehold.sleeps_over_0, leasehold.sleeps_over_1, leasehold.sleeps_over_2, leasehold.sleeps_over_3,
    leasehold.sleeps_over_4, leasehold.sleeps_over_5, leasehold.sleeps_over_6, leasehold.sleeps_over_7
    to :"producer", :"worker";

-- Working: a worker claims and finishes every job, prunes, evicts, and registers definitions. Handlers enqueue, cancel and
-- retry by its connections.
grant insert, update, delete on leasehold.jobs to :"worker";
grant insert, delete, update (prune_after) on leasehold.jobs_done to :"worker"; -- UPDATE only for its locks
grant insert, delete on leasehold.job_attempts, leasehold.job_lines to :"worker";
grant select, delete, update (expires_at) on leasehold.dedupe_holds to :"worker"; -- UPDATE only for its locks
grant insert, delete, update (last_seen_at, lease_expires_at) on leasehold.workers to :"worker";
grant insert, delete, update (started_at) on leasehold.worker_names to :"worker"; -- UPDATE only for its locks
grant insert, update (wakes_at) on leasehold.sleepers to :"worker";
grant usage on
    leasehold.sleeps_begun_0, leasehold.sleeps_begun_1, leasehold.sleeps_begun_2, leasehold.sleeps_begun_3,
    leasehold.sleeps_begun_4, leasehold.sleeps_begun_5, leasehold.sleeps_begun_6, leasehold.sleeps_begun_7
    to :"worker";
grant update (running_from) on leasehold.limits to :"worker"; -- where the running jobs of a capped scope begin
grant insert, update (version, updated_at) on leasehold.definitions to :"worker";
grant insert on leasehold.definition_versions to :"worker";
grant execute on function leasehold.finish_within to :"worker";

-- A worker fires schedules, expands events and syncs the triggers of its code; its handlers may change those of tenants.
-- It deletes no trigger: a deleted one stays, and is marked.
grant insert, update on leasehold.triggers to :"worker";
grant insert, delete, update (why) on leasehold.trigger_decisions to :"worker"; -- UPDATE only for its locks
grant insert, delete, update (expanded_at) on leasehold.events to :"worker";

commit;
