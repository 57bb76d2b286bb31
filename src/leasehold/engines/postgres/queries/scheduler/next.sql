-- Returns how long until the next schedule fires; if asked to, also tells all schedulers, so that no other one looks.
select next.wait,
       case when :announce::boolean and next.wait is null then pg_notify(leasehold.channel_for_all(), 'fired')
            when :announce::boolean and next.wait > interval '0' then pg_notify(
                leasehold.channel_for_all(), format('fired %s', round(extract(epoch from next.wait)::numeric, 3)))
       end
from (
    select (
        select t.next_fire_at from leasehold.triggers t
        where t.next_fire_at is not null
        order by t.next_fire_at limit 1
    ) - (select leasehold.clock()) as wait
    offset 0  -- computed once, and not for each use
) next
