-- The server's version, and the settings without which no commit is safe.
select current_setting('server_version') as version, current_setting('server_version_num')::integer / 10000 as major,
       array(
           select name from unnest(array['fsync', 'full_page_writes']) as name where current_setting(name) = 'off'
       ) as switched_off
