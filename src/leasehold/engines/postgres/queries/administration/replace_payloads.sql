-- Replaces payloads that are still as they were read, and whose rows are not locked. Returns how many it replaced.
with given as materialized (
    select g.tenant, g.id, g.before, g.after
    from jsonb_to_recordset(:changes::text::jsonb) as g (tenant text, id uuid, before jsonb, after jsonb)
),
-- Waits for no lock: a worker that finishes these jobs may wait for the others of them.
free_jobs as materialized (
    select j.tenant_id, j.id, g.after
    from given g
    join leasehold.jobs j on j.tenant_id = g.tenant and j.id = g.id
    where j.payload = g.before
    for update of j skip locked
),
free_done as materialized (
    select j.tenant_id, j.id, g.after
    from given g
    join leasehold.jobs_done j on j.tenant_id = g.tenant and j.id = g.id
    where j.payload = g.before
    for update of j skip locked
),
changed_jobs as (
    update leasehold.jobs j set payload = f.after
    from free_jobs f where j.tenant_id = f.tenant_id and j.id = f.id
    returning 1
),
changed_done as (
    update leasehold.jobs_done j set payload = f.after
    from free_done f where j.tenant_id = f.tenant_id and j.id = f.id
    returning 1
)
select (select count(*) from changed_jobs) + (select count(*) from changed_done) as replaced
