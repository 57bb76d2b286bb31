-- Adds up the usage of a tenant between two hours: of the hours that are added up, and of the attempts since then.
select include(usage_sums)
from (
    select include(usage_columns) from leasehold.usage_hours u
    where u.tenant_id = :tenant and u.at >= :since and u.at < :till
    union all
    select include(usage_columns) from leasehold.series_progress p
    cross join lateral leasehold.usage_between(greatest(p.usage_until, :since), :till, :tenant) u
    where u.tenant_id = :tenant
) used
where :definition::text is null or used.definition = :definition
group by 1, 2
order by at, run_time desc, definition
limit :limit
