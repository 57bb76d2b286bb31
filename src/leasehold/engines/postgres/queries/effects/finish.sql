-- Ends a claim within the transaction that its handler writes in. As text: a caller's own codec may make more of JSON.
select leasehold.finish_within(cast(cast(:claim as text) as jsonb))
