-- Puts off a schedule that the database can't fire, so that it stops no other one, and records why.
with moment as materialized (
    select now from leasehold.clock() as now
),
postponed as (
    update leasehold.triggers t
    set next_fire_at = (select now from moment) + :by::interval
    where t.id = :trigger::uuid and t.next_fire_at <= (select now from moment)
    returning t.id, t.tenant_id, (select now from moment) as now
)
insert into leasehold.trigger_decisions (trigger_id, tenant_id, fire_at, kind, reason, why, decided_at)
select id, tenant_id, now, 'error', 'unreadable', left(:why::text, 1000), now from postponed
on conflict do nothing
