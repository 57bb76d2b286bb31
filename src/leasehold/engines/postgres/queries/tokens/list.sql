-- Lists tokens by their ids.
select include(token_columns) from leasehold.api_tokens t cross join leasehold.clock() as now
where t.id > :after order by t.id limit :limit
