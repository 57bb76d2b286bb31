-- Adds up figures of the minutes that have ended. Returns up to when; null if there was nothing to do.
select leasehold.roll_up() as till
