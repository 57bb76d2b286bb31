-- Returns the command that seals a database as a template, or makes it an ordinary one again.
select format(
    'alter database %I with is_template %s allow_connections %s',
    :name::text, (:sealed::bool)::text, (not :sealed::bool)::text
);
