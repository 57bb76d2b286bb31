-- Returns the command that drops a database, open connections included.
select format('drop database if exists %I with (force)', :name::text);
