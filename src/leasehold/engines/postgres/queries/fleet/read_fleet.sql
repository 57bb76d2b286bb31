-- Returns the latest figures of the fleet and their age; measures them, if they are old and no other session does.
select r.age, r.figures from leasehold.read_fleet(:max_age) r
