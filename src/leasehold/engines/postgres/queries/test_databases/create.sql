-- Returns the command that makes an empty database.
select format('create database %I', :name::text);
