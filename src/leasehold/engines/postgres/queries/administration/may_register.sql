-- Tells whether the role of this connection may make another version of a definition current.
select has_column_privilege('leasehold.definitions', 'version', 'update')
