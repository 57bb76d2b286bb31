-- What time it is.
select leasehold.clock();
