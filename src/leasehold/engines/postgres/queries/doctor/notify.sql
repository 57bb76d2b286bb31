-- A notification to oneself, on a channel that nobody else knows.
select pg_notify(:channel, '')
