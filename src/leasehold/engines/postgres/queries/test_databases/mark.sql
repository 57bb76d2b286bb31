-- The command that makes a database a template that nobody can change any more, or an ordinary one again.
select format(
    'alter database %I with is_template %s allow_connections %s',
    :name::text, (:sealed::bool)::text, (not :sealed::bool)::text
);
