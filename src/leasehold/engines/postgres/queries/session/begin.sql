-- Begins a transaction of ours in a session that a pooler lends, whatever its database or role prefers.
begin isolation level read committed
