-- Reads a token by its public id.
select include(token_columns) from leasehold.api_tokens t cross join leasehold.clock() as now where t.id = :token
