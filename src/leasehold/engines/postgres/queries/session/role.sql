-- Returns the role that this session has taken; none if it has its own.
select current_setting('role')
