-- Adds up figures of the minutes that have ended; if there are none, usage. Returns whether there may be more to do.
select case when leasehold.roll_up() is not null then true else leasehold.add_up_usage() end as more
