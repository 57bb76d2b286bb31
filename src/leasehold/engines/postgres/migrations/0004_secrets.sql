-- Secret fields: SQL can't encrypt them, so it can't enqueue jobs of a definition that has some.
--
-- The release before keeps working: one function checks more, and refuses what that release could not encrypt either.
-- needs: 0001

-- Returns whether a schema marks a secret at any depth, as leasehold.model.secret_fields does.
create function leasehold.has_secrets(schema jsonb) returns boolean language sql immutable parallel safe
    as $$ select jsonb_path_exists(coalesce(schema, '{}'), '$.**."x-secret" ? (@ == true)') $$;

-- Refuses payloads that do not fit the version that their job names, and those of definitions with secret fields. Drivers
-- that have validated payloads, and encrypted the secrets, skip this. A loop: one statement over all jobs was planned at
-- each call, because it is cheaper for a known number of them.
create or replace function leasehold.require_valid(jobs leasehold.new_job[]) returns void
language plpgsql stable as $$
declare
    job leasehold.new_job;
    known leasehold.definition_versions;
    number integer := 0;
    problems text;
begin
    foreach job in array jobs loop
        number := number + 1;
        if known.key is distinct from job.definition or known.version is distinct from job.version then
            select v.* into known
            from leasehold.definition_versions v where v.key = job.definition and v.version = job.version;
            if leasehold.has_secrets(known.schema) then
                perform leasehold.refuse(
                    'LH-1001', format('%s has secret fields, which SQL can''t encrypt.', job.definition),
                    'Nothing was enqueued. Enqueue it from Python or by leasehold enqueue, with LEASEHOLD_SECRET_KEY.',
                    case when cardinality(jobs) > 1 then number::text else '' end);
            end if;
        end if;
        problems := leasehold.problems_of_fields(job.payload, known.schema);
        if problems is not null then
            perform leasehold.refuse(
                'LH-1001', format('%s: %s.', job.definition, problems),
                'Nothing was enqueued. Its schema: leasehold definitions show ' || job.definition,
                case when cardinality(jobs) > 1 then number::text else '' end);
        end if;
    end loop;
end $$;
