-- Reads figures of definitions over all tenants in steps of so many seconds, from rows of minutes.
select s.definition as key, f.key as figure,
       date_bin(:step::integer * interval '1 second', s.at, timestamptz '1970-01-01 00:00:00+00') as at,
       case when starts_with(f.key, 'depth:') then max(f.value::float8) else sum(f.value::float8) end as n
from leasehold.series_minutes s cross join jsonb_each_text(s.figures) f
where s.tenant_id = '' and s.definition = any (:definitions::text[]) and s.at >= :since and s.at < :till
group by 1, 2, 3
