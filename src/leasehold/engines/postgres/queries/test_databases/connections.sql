-- Lists the connections to this database, for people.
select format('%s, %s, last said: %s', coalesce(nullif(application_name, ''), 'unnamed'), state, query)
from pg_stat_activity where datname = :name and backend_type = 'client backend';
