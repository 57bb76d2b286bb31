-- Picks jobs of a tenant, or of all if $1 is null, by chance: an ended one from about the middle of its listing, a waiting
-- one, a correlation id, and an hour of last week.
with owner as (
    select coalesce($1, 'tenant-' || lpad((1 + floor(random() * $2)::integer)::text, 5, '0')) as tenant_id
),
moment as (
    select now() - (5 + 10 * random()) * interval '1 day' as at
)
select owner.tenant_id, ended.id::text, waiting.id::text as waiting_id,
       coalesce(linked.correlation_id, 'none') as correlation_id,
       to_char(moment.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as created_after,
       to_char((moment.at + interval '1 hour') at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as created_before
from owner
cross join moment
cross join lateral (
    select d.id from leasehold.jobs_done d
    where d.tenant_id = owner.tenant_id and d.id <= leasehold.least_id(moment.at) order by d.id desc limit 1
) ended
cross join lateral (
    select j.id from leasehold.jobs j
    where j.tenant_id = owner.tenant_id and j.status = 'queued' and j.ready and j.id >= leasehold.least_id(moment.at)
    order by j.id limit 1
) waiting
left join lateral (
    select d.correlation_id from leasehold.jobs_done d
    where d.tenant_id = owner.tenant_id and d.correlation_id is not null limit 1
) linked on true
