-- Asked first: creating a schema needs a privilege on the database, even if it is there.
select to_regnamespace('leasehold') is not null
