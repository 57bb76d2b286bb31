-- Tells what wears the server down: connections, dead rows, the queue of notifications.
select (select count(*) from pg_stat_activity where backend_type = 'client backend') as connections,
       current_setting('max_connections')::integer
           - current_setting('superuser_reserved_connections')::integer as most_connections,
       pg_notification_queue_usage() as notification_queue,
       pg_stat_get_dead_tuples('leasehold.jobs'::regclass) as dead_rows,
       pg_stat_get_live_tuples('leasehold.jobs'::regclass) as live_rows,
       current_setting('autovacuum') = 'on' as vacuums
