-- Returns how long until the next schedule fires, without those in the version that this process could not read; less
-- than zero if an event waits to be expanded. If asked to, also tells all schedulers, so that no other one looks.
select next.wait, next.events,
       case when :announce::boolean and next.wait is null then pg_notify(leasehold.channel_for_all(), 'fired')
            when :announce::boolean and next.wait > interval '0' then pg_notify(
                leasehold.channel_for_all(), format('fired %s', round(extract(epoch from next.wait)::numeric, 3)))
       end
from (
    select least(first.fire_at, first.emitted_at) - (select leasehold.clock()) as wait,
           first.emitted_at is not null as events
    from (
        select (select t.next_fire_at from leasehold.triggers t
                where t.next_fire_at is not null and format('%s:%s', t.id, t.version) <> all (:left::text[])
                order by t.next_fire_at limit 1) as fire_at,
               (select e.emitted_at from leasehold.events e
                where e.expanded_at is null order by e.emitted_at limit 1) as emitted_at
    ) first
    offset 0  -- computed once, and not for each use
) next
