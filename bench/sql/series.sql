-- Figures for charts: of all tenants and of the first, each minute of a day, and of $1 tenants every tenth minute; of all of
-- them, each hour of a week.
with shown as materialized (
    select jsonb_build_object(
        'enqueued', 10, 'started', 10, 'succeeded', 9, 'dead_letter', 1, 'failed_attempts', 5, 'retried', 4,
        'busy_ms', 5000, 'wait:5', 4, 'wait:6', 6, 'run:8', 10, 'depth:ready', 12, 'depth:running', 2) as figures
),
busy as (
    select '' as tenant_id, 1 as every union all select 'tenant-00000', 1
    union all
    select 'tenant-' || lpad(n::text, 5, '0'), 10 from generate_series(1, $1::integer - 1) n
),
minutes as (
    insert into leasehold.series_minutes (tenant_id, definition, at, figures)
    select busy.tenant_id, definition.key, p.minutes - n * interval '1 minute', shown.figures
    from leasehold.series_progress p, busy, shown, generate_series(1, 24 * 60) n,
         unnest(array['', 'bench', 'bench-1']) as definition (key)
    where n % busy.every = 0
)
insert into leasehold.series_hours (tenant_id, definition, at, figures)
select busy.tenant_id, definition.key, p.hours - n * interval '1 hour', shown.figures
from leasehold.series_progress p, busy, shown, generate_series(1, 24 * 7) n,
     unnest(array['', 'bench']) as definition (key)
