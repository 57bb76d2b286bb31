-- Lists operations behind a cursor, the newest first.
select include(operation_columns) from leasehold.operations o where o.id < :before::uuid order by o.id desc limit :limit
