-- Returns the command that copies a template. Since 15 the default strategy writes the whole copy to the WAL: files are
-- faster.
select format('create database %I template %I', :name::text, :template::text)
    || case when current_setting('server_version_num')::int >= 150000 then ' strategy file_copy' else '' end;
