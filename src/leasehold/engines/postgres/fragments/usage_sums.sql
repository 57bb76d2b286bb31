-- Usage added up by definition and by a step of so many seconds; null: by neither.
case when :by_definition::boolean then used.definition end as definition,
date_bin(:step::integer * interval '1 second', used.at, timestamptz '2000-01-01 00:00:00+00') as at,
sum(used.attempts)::bigint as attempts, sum(used.run_time) as run_time, sum(used.cpu_time) as cpu_time,
sum(used.cpu_attempts)::bigint as cpu_attempts
