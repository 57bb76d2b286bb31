-- Creates the roles and an empty schema that the migrating role owns. A superuser runs this script once, in the
-- database that holds the jobs. Roles and a schema that exist are left as they are. The roles can't log in yet: see
-- docs/how-to/roles.md.

begin;

set local leasehold_roles.migrator = :'migrator';
set local leasehold_roles.worker = :'worker';
set local leasehold_roles.server = :'server';
set local leasehold_roles.producer = :'producer';
set local leasehold_roles.reader = :'reader';
set local leasehold_roles.tenant = :'tenant';

do $$
declare
    part text;
    name text;
begin
    foreach part in array array['migrator', 'worker', 'server', 'producer', 'reader', 'tenant'] loop
        name := current_setting('leasehold_roles.' || part);
        if to_regrole(quote_ident(name)) is null then
            execute format('create role %I nologin %s', name, case part when 'server' then 'noinherit' else '' end);
        end if;
        execute format('grant connect on database %I to %I', current_database(), name);
    end loop;
    -- The server can act as the role of tenants. It does not inherit from it, or the policies would hold for the server.
    name := current_setting('leasehold_roles.server');
    if exists (select from pg_roles where rolname = name and not rolinherit) then
        execute format('grant %I to %I', current_setting('leasehold_roles.tenant'), name);
    end if;
    -- The migrating role needs no CREATE on the database: the schema is there, and is its own.
    if to_regnamespace('leasehold') is null then
        execute format(
            'create schema %I authorization %I', 'leasehold', current_setting('leasehold_roles.migrator'));
    end if;
end $$;

commit;
