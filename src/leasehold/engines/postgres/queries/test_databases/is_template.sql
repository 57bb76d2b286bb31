-- Whether there is a template of this name that is ready to be cloned.
select exists (select from pg_database where datname = :name and datistemplate);
