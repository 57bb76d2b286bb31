-- Tells whether the schema has the table of migrations; false: it was never migrated.
select to_regclass('leasehold.migrations') is not null
