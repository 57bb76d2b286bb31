-- A notification to oneself, sent from another connection, to see whether any arrive.
select pg_notify(leasehold.channel(:worker), 'probe')
