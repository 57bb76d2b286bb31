-- Adds up the usage of all tenants between two hours: of the hours that are added up, and of the attempts since then.
select case when :by_tenant::boolean then used.tenant_id end as tenant_id,
       include(usage_sums)
from (
    select include(usage_columns) from leasehold.usage_hours u
    where u.at >= :since and u.at < :till
    union all
    select include(usage_columns) from leasehold.series_progress p
    cross join lateral leasehold.usage_between(greatest(p.usage_until, :since), :till) u
) used
where :definition::text is null or used.definition = :definition
group by 1, 2, 3
order by at, run_time desc, tenant_id, definition
limit :limit
