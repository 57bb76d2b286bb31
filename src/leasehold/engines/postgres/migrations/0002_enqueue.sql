-- Enqueue from any language, in whatever transaction the caller is in.
--
-- leasehold.enqueue(…)       one job, for triggers and for people; what is refused is raised
-- leasehold.enqueue_jobs(…)  the jobs of one call as one jsonb parameter, for drivers; what is refused is answered, so
--                            that the caller's transaction can go on
-- leasehold.wake_workers(…)  wakes for jobs that were enqueued without a wake, once they are committed
--
-- All run with the rights of the schema's owner: an app's role needs USAGE on the schema and EXECUTE on them, nothing
-- else. Their signatures only ever grow at the end, by arguments that have defaults. What they stand on may change.
--
-- Their statements are planned when a session first runs them, by statistics of any age: told that tables are empty, the
-- planner would read them whole for as long as the session lasts (20 jobs: 513 buffers became 21,271). So they may not.
-- Before version 18 the planner then adds 1e10 to the cost of an empty table's scan, for which the server compiles the
-- statement: an enqueue on PostgreSQL 15 took 25 ms instead of 2. So jit is off, too.
-- And they have one plan for all values: the planner finds the one for an array of a single job cheaper, each time anew.
--
-- Refusals have SQLSTATE 'L' and the four digits of the error's code: LH-1002 is 'L1002'. A transaction that lost a race
-- has Postgres' own 40001: run it again.

create type leasehold.new_job as (
    definition      text,
    version         integer,
    payload         jsonb,
    id              uuid,
    priority        integer,
    max_attempts    integer,
    delay           interval,
    at              timestamptz,
    deadline        timestamptz,
    dedupe          text,
    dedupe_key      text,
    dedupe_for      interval,
    on_conflict     text,
    source          text,
    source_ref      text,
    correlation_id  text,
    created_by      text
);

create function leasehold.refuse(code text, happened text, fix text, about text default '') returns void
language plpgsql volatile as $$
begin
    raise exception using
        errcode = 'L' || right(code, 4), message = code || ': ' || happened, hint = fix, detail = about;
end $$;

-- ------------------------------------------------------------------------------------------------- keys and hashes

-- Time-ordered: 48 bits of milliseconds, 12 of their fraction, the rest by chance.
create function leasehold.uuid7() returns uuid language plpgsql volatile parallel safe as $$
declare
    micros constant bigint := floor(extract(epoch from leasehold.clock()) * 1000000);
begin
    return encode(
        substring(int8send(micros / 1000) from 3)
        || int2send((28672 + micros % 1000 * 4096 / 1000)::smallint)
        || substring(uuid_send(gen_random_uuid()) from 9), 'hex')::uuid;
end $$;

-- JSON with sorted keys and no spaces: the same text for equal payloads, here and in Python (leasehold.model.dedupe).
create function leasehold.canonical(value jsonb) returns text language plpgsql immutable parallel safe as $$
begin
    return case jsonb_typeof(value)
        when 'object' then '{' || coalesce((
            select string_agg(
                to_json(e.key)::text || ':' || case
                    when jsonb_typeof(e.value) in ('object', 'array') then leasehold.canonical(e.value)
                    else e.value::text
                end, ',' order by e.key collate "C")
            from jsonb_each(value) e), '') || '}'
        when 'array' then '[' || coalesce((
            select string_agg(
                case
                    when jsonb_typeof(e.value) in ('object', 'array') then leasehold.canonical(e.value)
                    else e.value::text
                end, ',' order by e.ordinality)
            from jsonb_array_elements(value) with ordinality e), '') || ']'
        else value::text
    end;
end $$;

-- The key of a job that brings none. Longer than a key may be, it has the hash of the payload instead.
create function leasehold.canonical_key(tenant text, definition text, payload jsonb) returns text
language plpgsql immutable parallel safe as $$
declare
    scope constant text := definition || '::' || case tenant when 'default' then 'global' else tenant end || '::';
    canonical constant text := leasehold.canonical(payload);
begin
    return scope || case
        when length(scope) + length(canonical) <= 1000 then canonical
        else 'sha256:' || encode(sha256(convert_to(canonical, 'UTF8')), 'hex')
    end;
end $$;

create function leasehold.dedupe_hash(tenant text, job leasehold.new_job) returns bytea
language plpgsql immutable parallel safe as $$
begin
    return sha256(convert_to(
        coalesce(job.dedupe_key, leasehold.canonical_key(tenant, job.definition, job.payload)), 'UTF8'));
end $$;

-- Begins with a byte that no key can have: a key must not be taken for an id.
create function leasehold.id_hash(id uuid) returns bytea language plpgsql immutable parallel safe
    as $$ begin return sha256('\x00'::bytea || convert_to('id:' || id::text, 'UTF8')); end $$;

-- What was asked for under an id that the caller brought.
create function leasehold.request_hash(definition text, payload jsonb) returns bytea
language plpgsql immutable parallel safe
    as $$ begin return sha256(convert_to(definition || '::' || payload::text, 'UTF8')); end $$;

-- -------------------------------------------------------------------------------------------------------- refusals

-- Characters that people can't see, as leasehold.model.hidden has them; a regular expression.
create function leasehold.hidden_characters() returns text language sql immutable parallel safe as $$
    select '[\u0001-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e'
        '\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f]'
$$;

-- The first of them in a text, in the form \u200b. Only for refusals: it is not inlined.
create function leasehold.hidden_character(name text) returns text language sql immutable parallel safe as $$
    select case when code > 65535 then '\U' || lpad(to_hex(code), 8, '0') else '\u' || lpad(to_hex(code), 4, '0') end
    from ascii(substring(name from leasehold.hidden_characters())) code
$$;

-- As leasehold.model.job.tenant_id has it: no hidden characters, no outer spaces of any script.
create function leasehold.require_tenant(tenant text) returns void language plpgsql immutable as $$
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

-- Spaces between the parts of a JSON text don't count: what is sent has none.
create function leasehold.size_of(payload jsonb) returns integer language sql immutable parallel safe as $$
    select case
        when octet_length(payload::text) <= 262144 then octet_length(payload::text)
        else octet_length(payload::text)
            - length(regexp_replace(regexp_replace(payload::text, '"(\\.|[^"\\])*"', '', 'g'), '[^ ]', '', 'g'))
    end
$$;

create function leasehold.problem_of_payload(payload jsonb) returns text language plpgsql immutable parallel safe as $$
begin
    return case
        when payload is null then 'payload: null is not an object.'
        when jsonb_typeof(payload) <> 'object' then format('payload: %s is not an object.', jsonb_typeof(payload))
        when leasehold.size_of(payload) > 262144
            then format('payload: %s bytes of JSON, at most 262144 are kept.', leasehold.size_of(payload))
        when jsonb_path_exists(payload, 'strict $.**{32} ? (@.type() == "object" || @.type() == "array")')
            then 'payload: nested deeper than 32 levels.'
        -- A number that large has 309 digits, so that nearly all payloads need not be looked through.
        when octet_length(payload::text) > 308 and jsonb_path_exists(
            payload,
            'strict $.** ? (@.type() == "number" && (@ > 1.7976931348623157e308 || @ < -1.7976931348623157e308))')
            then 'payload: a number beyond 1.8e308, which most readers of JSON would take for infinity.'
    end;
end $$;

create function leasehold.problem_of_text(name text, text text) returns text
language plpgsql immutable parallel safe as $$
begin
    return case when length(text) > 1000
        then format('%s has %s characters, at most 1000 are kept', name, length(text)) end;
end $$;

-- Null, too, for a null moment.
create function leasehold.problem_of_moment(name text, moment timestamptz) returns text
language plpgsql immutable parallel safe as $$
begin
    return case
        when not isfinite(moment) then format('%s=%s names no moment', name, moment)
        when moment < leasehold.earliest() or moment >= leasehold.latest()
            then format('%s=%s is not in the years 1900 to 9998', name, moment)
    end;
end $$;

-- Whether `now` plus this interval can be computed. Comparing does not tell: months and days of opposite signs are worth
-- nothing together, and yet each is added on its own.
create function leasehold.can_be_added(length interval) returns boolean language sql immutable parallel safe as $$
    select abs(extract(year from length)) <= 10 and abs(extract(day from length)) <= 3650
       and abs(extract(hour from length)) <= 87600
$$;

create function leasehold.problem_of(job leasehold.new_job) returns text
language plpgsql immutable parallel safe as $$
begin
    return case
        when job.priority not between -32768 and 32767
            then format('priority=%s is not between -32768 and 32767, lower runs first', job.priority)
        when job.max_attempts < 1
            then format('max_attempts=%s is not at least 1, it counts the first try', job.max_attempts)
        when job.version < 1
            then format('version=%s is not at least 1, null stands for the current one', job.version)
        when job.delay not between interval '0' and interval '3650 days' or not leasehold.can_be_added(job.delay)
            then format('delay=%s is not between zero and 3650 days', job.delay)
        when job.dedupe not in ('active', 'window', 'always')
            then format('dedupe=%L is none of active, window and always', job.dedupe)
        when length(job.dedupe_key) not between 1 and 1000
            then format('a dedupe key has 1 to 1000 characters, this one %s', length(job.dedupe_key))
        -- A canonical key holds a payload, whose texts may have any character.
        when job.dedupe_key is not null and job.dedupe_key !~ '::\{.*\}$'
            and job.dedupe_key ~ leasehold.hidden_characters()
            then format('the dedupe key has %s, a character that can''t be seen',
                        leasehold.hidden_character(job.dedupe_key))
        when job.dedupe = 'window' and job.dedupe_for is null then 'a window needs dedupe_for, how long it is'
        when job.dedupe_for is not null and coalesce(job.dedupe, 'active') = 'active'
            then 'dedupe_for goes with dedupe window or always'
        when job.dedupe_for <= interval '0' or job.dedupe_for > interval '3650 days'
            or not leasehold.can_be_added(job.dedupe_for)
            then format('dedupe_for=%s is not longer than zero and at most 3650 days', job.dedupe_for)
        when job.on_conflict not in ('return', 'raise', 'replace')
            then format('on_conflict=%L is none of return, raise and replace', job.on_conflict)
        when job.on_conflict <> 'return' and job.dedupe is null and job.dedupe_key is null
            then format('on_conflict=%L says what to do when a dedupe key is held, and there is none', job.on_conflict)
        when job.source not in ('manual', 'event', 'schedule', 'system')
            then format('source=%L is none of manual, event, schedule and system', job.source)
        else coalesce(
            leasehold.problem_of_moment('at', job.at),
            leasehold.problem_of_moment('deadline', job.deadline),
            leasehold.problem_of_text('definition', job.definition),
            leasehold.problem_of_text('source_ref', job.source_ref),
            leasehold.problem_of_text('correlation_id', job.correlation_id),
            leasehold.problem_of_text('created_by', job.created_by))
    end;
end $$;

-- Of several jobs, the refusal names the number of the first one that can't be used, from 1 on.
create function leasehold.require_usable(jobs leasehold.new_job[]) returns void language plpgsql stable as $$
declare
    job leasehold.new_job;
    number integer := 0;
    about text := '';
begin
    if not exists (
        select from unnest(jobs) j
        where leasehold.problem_of_payload(j.payload) is not null or leasehold.problem_of(j) is not null
    ) then
        return;
    end if;
    foreach job in array jobs loop
        number := number + 1;
        exit when leasehold.problem_of_payload(job.payload) is not null or leasehold.problem_of(job) is not null;
    end loop;
    if cardinality(jobs) > 1 then
        about := number::text;
    end if;
    if leasehold.problem_of_payload(job.payload) is not null then
        perform leasehold.refuse(
            'LH-1001', format('%s: %s', left(job.definition, 120), leasehold.problem_of_payload(job.payload)),
            'Nothing was enqueued. A payload is a JSON object; store large data elsewhere and pass where it is.',
            about);
    end if;
    perform leasehold.refuse(
        'LH-1000',
        format('The job of %L can''t be enqueued: %s.', left(job.definition, 120), leasehold.problem_of(job)),
        'Nothing was enqueued. Correct the values.', about);
end $$;

create function leasehold.require_accepted(jobs leasehold.new_job[]) returns void language plpgsql stable as $$
declare
    bad record;
begin
    select n.definition, n.version, d.version as current, d.active into bad
    from unnest(jobs) with ordinality n
    left join leasehold.definitions d on d.key = n.definition
    left join leasehold.definition_versions v on v.key = d.key and v.version = coalesce(n.version, d.version)
    where v.version is null or not d.active
    order by n.ordinality limit 1;
    if not found then
        return;
    elsif bad.current is null then
        perform leasehold.refuse(
            'LH-1002',
            format('there is no definition "%s". Known: %s. Nothing was enqueued.', left(bad.definition, 120),
                coalesce(
                (select string_agg(d.key, ', ' order by d.key)
                 from (select key from leasehold.definitions order by key limit 5) d), 'none')),
            'If you just added it in code, run: leasehold definitions sync app.py');
    elsif not bad.active then
        perform leasehold.refuse(
            'LH-1005', format('%L is inactive: it takes nothing new. Nothing was enqueued.', bad.definition),
            'Run: leasehold definitions activate ' || bad.definition);
    else
        perform leasehold.refuse(
            'LH-1002',
            format('there is no version %s of %L; version %s is current. Nothing was enqueued.',
                   bad.version, bad.definition, bad.current),
            'Run: leasehold definitions sync app.py, with the code that enqueues; or leave the version out.');
    end if;
end $$;

-- The JSON types that a schema allows; null if it allows any, or if this function can't tell. A reference is looked up in
-- the whole schema, at most 8 deep: a schema may refer to itself.
create function leasehold.json_types(schema jsonb, whole jsonb, depth integer default 0) returns text[]
language plpgsql immutable parallel safe as $$
declare
    part jsonb;
    types text[];
    all_types text[] := '{}';
begin
    if depth > 8 or jsonb_typeof(schema) is distinct from 'object' then
        return null;
    elsif jsonb_typeof(schema -> 'type') = 'string' then
        return array[schema ->> 'type'];
    elsif jsonb_typeof(schema -> 'type') = 'array' then
        return array(select jsonb_array_elements_text(schema -> 'type'));
    elsif schema ->> '$ref' like '#/$defs/%' then
        return leasehold.json_types(whole #> string_to_array(substr(schema ->> '$ref', 3), '/'), whole, depth + 1);
    elsif jsonb_typeof(coalesce(schema -> 'anyOf', schema -> 'oneOf')) is distinct from 'array' then
        return null;
    end if;
    for part in select jsonb_array_elements(coalesce(schema -> 'anyOf', schema -> 'oneOf')) loop
        types := leasehold.json_types(part, whole, depth + 1);
        if types is null then
            return null;
        end if;
        all_types := all_types || types;
    end loop;
    return all_types;
end $$;

-- What of a payload's fields does not fit the schema: one is missing or unknown, or has another JSON type. Null: nothing.
-- Formats, bounds, patterns and what is inside of a field are left to the worker.
create function leasehold.problems_of_fields(payload jsonb, schema jsonb) returns text
language plpgsql immutable parallel safe as $$
declare
    -- A model that refers to itself is a reference as a whole.
    root constant jsonb := case
        when schema ->> '$ref' like '#/$defs/%' then schema #> string_to_array(substr(schema ->> '$ref', 3), '/')
        else schema
    end;
    required constant jsonb := case when jsonb_typeof(root -> 'required') = 'array' then root -> 'required' else '[]' end;
    properties constant jsonb := case
        when jsonb_typeof(root -> 'properties') = 'object' then root -> 'properties' else '{}'
    end;
    is_closed constant boolean := root -> 'additionalProperties' = 'false' and not root ? 'patternProperties';
    found text[];
begin
    select array_agg(problem) into found
    from (
        select format('payload.%s: missing', left(r.name, 120)) as problem
        from jsonb_array_elements_text(required) as r (name) where not payload ? r.name
        union all
        select case
            when not properties ? f.name then format('payload.%s: unknown field (known: %s%s)', left(f.name, 120), (
                select coalesce(string_agg(known.name, ', '), 'none')
                from (select name from jsonb_object_keys(properties) name order by name collate "C" limit 10) known),
                (select format(', and %s more', count(*) - 10) from jsonb_object_keys(properties) having count(*) > 10))
            else format('payload.%s: %s is not of type %s', left(f.name, 120), case
                when length(f.value::text) > 80 then left(f.value::text, 79) || '…' else f.value::text end,
                array_to_string(leasehold.json_types(properties -> f.name, schema), ' or '))
        end
        from jsonb_each(payload) as f (name, value)
        where case
            when not properties ? f.name then is_closed
            -- Null, and so not found, where any type is allowed.
            else not jsonb_typeof(f.value) = any (leasehold.json_types(properties -> f.name, schema)) and case
                -- JSON Schema calls 9.0 an integer.
                when jsonb_typeof(f.value) = 'number' and (f.value #>> '{}')::numeric % 1 = 0
                    then not 'integer' = any (leasehold.json_types(properties -> f.name, schema))
                else true
            end
        end
        limit 20
    ) problems;
    return array_to_string(found, '; ');
end $$;

-- Each job names the version that it is pinned to. Drivers that have validated already don't come here. A loop: one
-- statement over all jobs was planned at each call, because it is cheaper for a known number of them.
create function leasehold.require_valid(jobs leasehold.new_job[]) returns void language plpgsql stable as $$
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

create function leasehold.refuse_duplicate(tenant text, job leasehold.new_job, holder uuid) returns void
language plpgsql volatile as $$
declare
    key constant text := coalesce('"' || job.dedupe_key || '"', 'of this definition, tenant and payload');
    status constant text := coalesce(
        (select r.status from leasehold.job_records r where r.tenant_id = tenant and r.id = holder), 'kept no longer');
begin
    if job.on_conflict = 'replace' then
        perform leasehold.refuse(
            'LH-1010', format('dedupe key %s is held by job %s (%s). Nothing was replaced.', key, holder, status),
            'Only a job that still waits can be replaced.', holder::text);
    end if;
    perform leasehold.refuse(
        'LH-1010', format('dedupe key %s is held by job %s (%s). Nothing was enqueued.', key, holder, status),
        'Let that one do the work; on_conflict "return" answers with its id instead.', holder::text);
end $$;

-- ---------------------------------------------------------------------------------------------------------- placing

-- What is not said is said by the definition and the clock. `at` becomes when it is due.
create function leasehold.completed(jobs leasehold.new_job[], now timestamptz) returns leasehold.new_job[]
language plpgsql stable as $$
#variable_conflict use_variable
begin
    return (select array_agg(
        row (
            n.definition, v.version, n.payload, n.id, coalesce(n.priority, v.priority),
            coalesce(n.max_attempts, v.max_attempts), null, coalesce(n.at, now + coalesce(n.delay, interval '0')),
            n.deadline, coalesce(n.dedupe, case when n.dedupe_key is not null then 'active' end), n.dedupe_key,
            n.dedupe_for, coalesce(n.on_conflict, 'return'), coalesce(n.source, 'manual'), n.source_ref,
            n.correlation_id, n.created_by
        )::leasehold.new_job order by n.ordinality)
    from unnest(jobs) with ordinality n
    join leasehold.definitions d on d.key = n.definition
    join leasehold.definition_versions v on v.key = d.key and v.version = coalesce(n.version, d.version));
end $$;

-- False: its key is taken.
create function leasehold.insert_job(
    tenant text, job leasehold.new_job, id uuid, seq bigint, hash bytea, now timestamptz
) returns boolean language plpgsql volatile as $$
begin
    insert into leasehold.jobs (
        id, seq, scheduled_for, queued_at, deadline, version, max_attempts, priority, ready, tenant_id, definition,
        status, payload, source, source_ref, correlation_id, created_by, dedupe_held, dedupe_hash, dedupe_key)
    values (
        insert_job.id, insert_job.seq, job.at, now, job.deadline, job.version, job.max_attempts, job.priority,
        job.at <= now, tenant, job.definition, 'queued', job.payload, job.source, job.source_ref, job.correlation_id,
        job.created_by, job.dedupe <> 'active', hash, job.dedupe_key)
    on conflict do nothing;
    return found;
end $$;

-- A job that still waits becomes what is asked for now. It keeps its id, its key and its history, and has all its
-- attempts before it. Who is just claiming it is waited for.
create function leasehold.replaced(tenant text, holder uuid, job leasehold.new_job, seq bigint, now timestamptz)
returns boolean language plpgsql volatile as $$
begin
    update leasehold.jobs j
    set definition = job.definition, version = job.version, payload = job.payload, priority = job.priority,
        max_attempts = job.max_attempts, scheduled_for = job.at, ready = job.at <= now, deadline = job.deadline,
        source = job.source, source_ref = job.source_ref, correlation_id = job.correlation_id,
        created_by = job.created_by, seq = replaced.seq, forgiven = j.attempt, last_error = null, last_error_code = null
    where j.tenant_id = tenant and j.id = holder and j.status = 'queued';
    return found;
end $$;

-- Another job holds the key. True: that one was replaced. False: that one is the answer. Null: it has let go of the key
-- meanwhile, ask again.
create function leasehold.settled(tenant text, job leasehold.new_job, holder uuid, seq bigint, now timestamptz)
returns boolean language plpgsql volatile as $$
begin
    if job.on_conflict = 'return' then
        return false;
    elsif job.on_conflict = 'replace' and leasehold.replaced(tenant, holder, job, seq, now) then
        return true;
    elsif job.dedupe = 'active'
        and not exists (select from leasehold.jobs j where j.tenant_id = tenant and j.id = holder)
    then
        return null;
    end if;
    perform leasehold.refuse_duplicate(tenant, job, holder);
end $$;

-- An id that the caller brought is used once, whatever became of its job. True: it is taken now, for this call. False:
-- it was before, for the same request.
create function leasehold.takes_id(tenant text, job leasehold.new_job) returns boolean language plpgsql volatile as $$
declare
    hash constant bytea := leasehold.id_hash(job.id);
    request constant bytea := leasehold.request_hash(job.definition, job.payload);
    before bytea;
    taken boolean;
begin
    for round in 1..5 loop
        insert into leasehold.dedupe_holds (tenant_id, dedupe_hash, job_id, request_hash)
        values (tenant, hash, job.id, request) on conflict do nothing;
        taken := found;
        if taken then
            -- One that we made ourselves, and that its job's caller brings back, was not held till now.
            select leasehold.request_hash(r.definition, r.payload) into before
            from leasehold.job_records r where r.tenant_id = tenant and r.id = job.id;
        else
            select h.request_hash into before
            from leasehold.dedupe_holds h where h.tenant_id = tenant and h.dedupe_hash = hash;
        end if;
        if found and before <> request then
            perform leasehold.refuse(
                'LH-1013',
                format('the id %s was used before, for another definition or payload. Nothing was enqueued.', job.id),
                'Bring a new id for a new request; repeat an old one unchanged.');
        elsif found then
            return false;
        elsif taken then
            return true;
        end if;
    end loop;
    raise exception using errcode = '40001', message = format('the id %s was taken and freed by others', job.id);
end $$;

-- Who holds a key beyond its job's life; null when the key is ours from now on. Looks before it writes: a row that is
-- only looked at makes nobody wait.
create function leasehold.held_by(
    tenant text, hash bytea, id uuid, expires_at timestamptz, now timestamptz
) returns uuid language plpgsql volatile as $$
declare
    holder uuid;
begin
    for round in 1..5 loop
        select h.job_id into holder from leasehold.dedupe_holds h
        where h.tenant_id = tenant and h.dedupe_hash = hash and (h.expires_at is null or h.expires_at > now);
        if found then
            return holder;
        end if;
        insert into leasehold.dedupe_holds as h (tenant_id, dedupe_hash, job_id, expires_at)
        values (tenant, hash, id, held_by.expires_at)
        on conflict (tenant_id, dedupe_hash)
            do update set job_id = excluded.job_id, expires_at = excluded.expires_at where h.expires_at <= now;
        if found then
            return null;
        end if;
    end loop;
    raise exception using errcode = '40001', message = 'the dedupe key was taken and freed by others';
end $$;

-- All of them or none, each with the job that is its answer. Locks are taken in the order of ids and then of keys, by all
-- callers, so that two batches can't wait for each other.
create function leasehold.place_jobs(tenant text, given leasehold.new_job[], wakes boolean, validate boolean)
returns table (number bigint, job_id uuid, created boolean, replaced boolean) language plpgsql volatile as $$
#variable_conflict use_variable
declare
    now constant timestamptz := leasehold.clock();
    jobs leasehold.new_job[];
    ids uuid[];
    seqs bigint[];
    -- By number, too: a key's hash, the job that is the answer, whether it is new, whether it was replaced, and the
    -- earlier one of this call that brings the same id.
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
    jobs := leasehold.completed(given, now);
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
        if not leasehold.takes_id(tenant, job) then
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
            dedupe_for, on_conflict, source, source_ref, correlation_id, created_by, number)
        where n.dedupe is not null order by n.dedupe = 'active', n.hash, n.number
    loop
        continue when places[number] is not null or same_as[number] is not null;
        job := jobs[number];
        for round in 1..5 loop
            holder := null;
            if job.dedupe <> 'active' then
                holder := leasehold.held_by(tenant, hashes[number], ids[number], now + job.dedupe_for, now);
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
            changed[number] := leasehold.settled(tenant, job, holder, seqs[number], now);
            continue when changed[number] is null;
            places[number] := holder;
            -- Not created: its id is free for another request.
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
            status, payload, source, source_ref, correlation_id, created_by)
        select n.new_id, n.seq, n.at, now, n.deadline, n.version, n.max_attempts, n.priority, n.at <= now, tenant,
               n.definition, 'queued', n.payload, n.source, n.source_ref, n.correlation_id, n.created_by
        from unnest(ids, seqs, places, same_as, jobs) as n (
            new_id, seq, place, same_as, definition, version, payload, id, priority, max_attempts, delay, at, deadline,
            dedupe, dedupe_key, dedupe_for, on_conflict, source, source_ref, correlation_id, created_by)
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

-- ------------------------------------------------------------------------------------------------------------ public

-- A job, from SQL: `select * from leasehold.enqueue('acme', 'sync_folder', '{"path": "/"}')`.
create function leasehold.enqueue(
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
    perform leasehold.durably();
    select p.job_id, p.created, p.replaced into job_id, created, replaced
    from leasehold.place_jobs(tenant, array[row (
        key, null, payload, id, priority, max_attempts, delay, at, deadline, dedupe, dedupe_key, dedupe_for,
        on_conflict, 'manual', null, correlation_id, created_by
    )::leasehold.new_job], wakes => true, validate => true) p;
end $$;

-- Jobs, from a driver: an array of objects whose fields are those of leasehold.new_job. One row for each, by its number
-- from 1 on; or a single row whose code says why all of them were refused. Of many calls in a transaction none wakes, and
-- leasehold.wake comes at the end: its lock would be held from the first on. A driver that has validated the payloads
-- passes validate => false.
create function leasehold.enqueue_jobs(
    tenant text, jobs jsonb, wakes boolean default true, validate boolean default true)
returns table (
    number bigint, job_id uuid, created boolean, replaced boolean, code text, happened text, fix text, about text
) language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
begin
    perform leasehold.durably();
    return query
        select p.number, p.job_id, p.created, p.replaced, null::text, null::text, null::text, null::text
        from leasehold.place_jobs(
            tenant, array(select j from jsonb_populate_recordset(null::leasehold.new_job, jobs) j), wakes, validate) p;
exception
    when sqlstate 'L1000' or sqlstate 'L1001' or sqlstate 'L1002' or sqlstate 'L1005' or sqlstate 'L1006'
        or sqlstate 'L1010' or sqlstate 'L1013'
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

-- Wakes a worker that can run jobs which are committed already, and were enqueued without a wake: after COMMIT PREPARED,
-- since Postgres refuses PREPARE TRANSACTION after a NOTIFY. That worker wakes the next if there is more. Returns how
-- many were woken; 0 if all that could are awake.
create function leasehold.wake_workers(tenant text, key text) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
begin
    perform leasehold.require_tenant(tenant);
    return leasehold.wake_for_one(key, tenant, null);
end $$;

revoke execute on function leasehold.enqueue, leasehold.enqueue_jobs, leasehold.wake_workers from public;
