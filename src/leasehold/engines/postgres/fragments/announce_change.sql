-- Tells all schedulers that the schedule of the row t has changed: the next fire that they know may be none.
case when t.kind = 'schedule' then pg_notify(leasehold.channel_for_all(), 'schedules') end
