-- Notifies the worker itself from another connection, to see whether notifications arrive.
select pg_notify(leasehold.channel(:worker), 'probe')
