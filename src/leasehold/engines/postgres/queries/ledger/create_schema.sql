-- Creates the schema. Looks first: creating one needs a privilege on the database, even if it exists.
do $$ begin
    if to_regnamespace('leasehold') is null then
        create schema leasehold;
    end if;
end $$;
