-- True if the role of this connection may make another version of a definition the current one.
select has_column_privilege('leasehold.definitions', 'version', 'update')
