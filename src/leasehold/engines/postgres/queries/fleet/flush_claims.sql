-- Puts the claims that this connection committed asynchronously on disk: a durable commit flushes every earlier one.
-- The message gives the transaction something to write; without that its commit would flush nothing.
select pg_logical_emit_message(true, 'leasehold', ''), leasehold.force_sync_commit()
