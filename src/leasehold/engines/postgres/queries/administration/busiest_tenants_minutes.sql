-- Returns the tenants whose jobs ran longest within a time, from rows of minutes.
select s.tenant_id from leasehold.series_minutes s
where s.at >= :since and s.at < :till and s.definition = '' and s.tenant_id <> ''
group by s.tenant_id
order by sum((s.figures ->> 'busy_ms')::numeric) desc nulls last, s.tenant_id limit :limit
