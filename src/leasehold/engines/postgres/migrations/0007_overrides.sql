-- Overrides: fields of definitions that administrators set, kept apart from the content that code declares.
--
-- A version with overrides names the version without them as its base. The release before reads such a version like
-- any other. Its syncs know no overrides, and make the version of their code current; the next sync of this release
-- applies the overrides again.
-- needs: 0001

alter table leasehold.definitions
    add column declared boolean not null default true,     -- code has registered it; else an administrator has
    add column overrides jsonb not null default '{}' check (jsonb_typeof(overrides) = 'object'),
    add column revision integer not null default 0;        -- counts the changes by administrators

-- The version with the content of the code, if this one has overrides.
alter table leasehold.definition_versions add column base integer;
