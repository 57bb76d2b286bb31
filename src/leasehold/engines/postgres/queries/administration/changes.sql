-- Lists the jobs that have changed since a moment, of some tenants or of all, for live pages. Reads only what other
-- features have indexed by time, so that no enqueue, claim or finish does anything for it.
--
-- The look begins some seconds before `since`: a change may be committed after a later one was seen. The caller compares
-- with its look before. A new job of a named tenant is found by the time in its id; of all others, only the sequence
-- tells that there are some.
with span as materialized (
    select now, since, since - :overlap::interval as begin
    from leasehold.clock() as now cross join lateral (select coalesce(:since::timestamptz, now) as since) s
),
ended as materialized (
    include(newest_ends)
),
tried as materialized (
    include(newest_tries)
),
-- Retries, reschedules and cancels by people, among all that people did.
done_by_people as materialized (
    select l.tenant_id, l.subject, l.id, l.action, l.at
    from span cross join lateral (
        select l.tenant_id, l.subject, l.id, l.action, l.at from leasehold.audit_log l
        where l.id >= leasehold.least_id(span.begin) order by l.id desc limit :limit
    ) l
),
changed as (
    select e.tenant_id, e.id::text as job, 'ended ' || e.attempt as mark from ended e
    union all
    select t.tenant_id, t.job_id::text, 'tried ' || t.attempt from tried t
    union all
    -- All that run are looked at: these are as many as workers have slots.
    select j.tenant_id, j.id::text, 'runs ' || j.attempt
    from span join leasehold.jobs j on j.status = 'running' and j.started_at >= span.begin
    union all
    -- A producer's clock may be a minute off. Ids beyond that were chosen at random, and would be in the way.
    select t.tenant_id, j.id::text, 'new'
    from span cross join unnest(:tenants::text[]) as t (tenant_id)
    cross join lateral (
        select j.id from leasehold.jobs j
        where j.tenant_id = t.tenant_id and j.id >= leasehold.least_id(span.begin - interval '1 minute')
          and j.id < leasehold.least_id(span.now + interval '1 minute')
        order by j.id desc limit :of_tenant
    ) j
    union all
    select l.tenant_id, substr(l.subject, 5), l.id::text from done_by_people l
    where l.action like 'job.%' and l.subject like 'job %'
),
-- Operations change many jobs at once: those that are open, and the newest, which may have ended since the look before.
operated as (
    select o.tenant_id, o.id || ' ' || o.done as mark
    from (
        (select o.id, o.tenant_id, o.done from leasehold.operations o where o.due_at is not null
         order by o.due_at limit :limit)
        union
        (select o.id, o.tenant_id, o.done from leasehold.operations o order by o.id desc limit :operations)
    ) o
    where o.done > 0 and (:everything::boolean or o.tenant_id = any (:tenants::text[]))
),
-- Rows that a limit may have cut off: those between the look before and the oldest row of a full list.
read as (
    select count(*) as many, min(e.finished_at) as oldest from ended e group by e.kept_for
    union all
    select count(*), min(t.finished_at) from tried t
    union all
    select count(*), min(l.at) from done_by_people l
),
told as (
    select coalesce(array_agg(c.tenant_id), '{}') as tenants, coalesce(array_agg(c.job), '{}') as jobs,
           coalesce(array_agg(c.mark), '{}') as marks
    from changed c where :everything::boolean or c.tenant_id = any (:tenants::text[])
)
select span.now, s.last_value as queued, told.tenants, told.jobs, told.marks,
       array(select o.tenant_id::text from operated o order by o.mark) as operated_tenants,
       array(select o.mark from operated o order by o.mark) as operated,
       (select coalesce(bool_or(r.many >= :limit and r.oldest > span.since), false) from read r) as cut
from span cross join told cross join leasehold.jobs_seq s
