-- Notifies this session itself, on a channel that no other session knows.
select pg_notify(:channel, '')
