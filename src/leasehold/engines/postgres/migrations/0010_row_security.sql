-- Row-level security: a view with the rights of its caller, and functions for a role of one tenant at a time.
--
-- Row-level security itself is switched on by grants.sql, for the role that it names: without such a role no table has
-- policies. A role of tenants sees the rows of the tenant in `leasehold_session.tenant`, a setting that the store makes
-- for one transaction. Without the setting, or if it is empty, no row is visible and none can be written.
--
-- The release before sends none of these functions.
-- needs: 0001

-- Before PostgreSQL 15 a view always has the rights of its owner, for whom no policy holds. There, grants.sql does not
-- grant the view to the role of tenants.
do $$ begin
    if current_setting('server_version_num')::integer >= 150000 then
        alter view leasehold.job_records set (security_invoker = true);
    end if;
end $$;

-- Refuses every tenant but the one of this transaction; a function that runs as the owner is under no policy.
create function leasehold.require_own_tenant(tenant text) returns void language plpgsql stable as $$
begin
    if tenant is distinct from nullif(current_setting('leasehold_session.tenant', true), '') or tenant is null then
        raise insufficient_privilege using
            message = 'this transaction belongs to another tenant, or to none',
            hint = 'Set leasehold_session.tenant for this transaction';
    end if;
end $$;

-- As enqueue_jobs, for the tenant of this transaction.
create function leasehold.enqueue_own_jobs(
    tenant text, jobs jsonb, wakes boolean default true, validate boolean default true)
returns table (
    number bigint, job_id uuid, created boolean, replaced boolean, code text, happened text, fix text, about text
) language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform leasehold.require_own_tenant(tenant);
    return query select * from leasehold.enqueue_jobs(tenant, jobs, wakes, validate);
end $$;

-- As write_event, for the tenant of this transaction.
create function leasehold.write_own_event(
    tenant text, id uuid, name text, data jsonb, correlation_id text, created_by text,
    out emitted_at timestamptz, out triggers text, out answer text
) language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform leasehold.require_own_tenant(tenant);
    select w.emitted_at, w.triggers, w.answer into emitted_at, triggers, answer
    from leasehold.write_event(tenant, id, name, data, correlation_id, created_by) w;
end $$;

-- As place_event, for the tenant of this transaction.
create function leasehold.place_own_event(
    tenant text, event uuid, name text, data jsonb, correlation_id text, created_by text, emitted_at timestamptz,
    decisions jsonb, wakes boolean
) returns table (trigger_id uuid, kind text, job_id uuid, reason text, why text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform leasehold.require_own_tenant(tenant);
    return query
        select * from leasehold.place_event(
            tenant, event, name, data, correlation_id, created_by, emitted_at, decisions, wakes);
end $$;

revoke execute on function leasehold.enqueue_own_jobs, leasehold.write_own_event, leasehold.place_own_event
    from public;
