-- One maker of this template at a time; the lock ends with the connection.
select pg_advisory_lock(hashtext(:template));
