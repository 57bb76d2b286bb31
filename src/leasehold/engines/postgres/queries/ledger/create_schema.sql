-- Where all of it lives. Asked first: creating a schema needs a privilege on the database, even if it is there.
do $$ begin
    if to_regnamespace('leasehold') is null then
        create schema leasehold;
    end if;
end $$;
