-- Jobs that gave up are grouped by their error; operations have a reason.
--
-- The index costs jobs that fail or die, and no others. The release before does not know these things, and does not
-- need them.
-- needs: 0001

-- Returns the group of an error: a hash of what does not differ from job to job, as in leasehold.model.error_group.
create function leasehold.error_group(definition text, code text, error text) returns bytea
language plpgsql immutable parallel safe as $$
declare
    line text := left(coalesce(error, ''), 500);
begin
    line := regexp_replace(line, '[a-zA-Z][a-zA-Z0-9+.-]*://[^ \t\r\n"''<>]+', '*', 'g');
    line := regexp_replace(line, '"[^"]*"', '*', 'g');
    line := regexp_replace(line, '''[^'']*''', '*', 'g');
    line := regexp_replace(line, '/[a-zA-Z0-9._~/-]+', '*', 'g');
    line := regexp_replace(line, '[a-zA-Z0-9_-]*[0-9][a-zA-Z0-9_-]*', '*', 'g');
    line := regexp_replace(line, '[*]([.,:]?[*])+', '*', 'g');
    line := regexp_replace(line, '[ \t\r\n]+', ' ', 'g');
    return substring(
        sha256(convert_to(definition || chr(10) || coalesce(code, '') || chr(10) || line, 'UTF8')) from 1 for 8);
end $$;

create index jobs_done_errors on leasehold.jobs_done
    (tenant_id, leasehold.error_group(definition, last_error_code, last_error), id)
    where status in ('failed', 'dead_letter');

alter table leasehold.operations add column reason text check (length(reason) <= 1000);
