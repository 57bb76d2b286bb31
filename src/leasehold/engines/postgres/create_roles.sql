-- Creates the roles and an empty schema that the migrating role owns. A superuser runs this script once, in the
-- database that holds the jobs. Roles and a schema that exist are left as they are. The roles can't log in yet: see
-- docs/how-to/roles.md.

begin;

set local leasehold_roles.migrator = :'migrator';
set local leasehold_roles.worker = :'worker';
set local leasehold_roles.producer = :'producer';
set local leasehold_roles.reader = :'reader';

do $$
declare
    part text;
    name text;
begin
    foreach part in array array['migrator', 'worker', 'producer', 'reader'] loop
        name := current_setting('leasehold_roles.' || part);
        if to_regrole(quote_ident(name)) is null then
            execute format('create role %I nologin', name);
        end if;
        execute format('grant connect on database %I to %I', current_database(), name);
    end loop;
    -- The migrating role needs no CREATE on the database: the schema is there, and is its own.
    if to_regnamespace('leasehold') is null then
        execute format(
            'create schema %I authorization %I', 'leasehold', current_setting('leasehold_roles.migrator'));
    end if;
end $$;

commit;
