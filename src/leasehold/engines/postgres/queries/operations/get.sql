-- Returns an operation.
select include(operation_columns) from leasehold.operations o where o.id = :operation::uuid
