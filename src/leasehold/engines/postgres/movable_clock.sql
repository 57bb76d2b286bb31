-- The clock of a test database can be moved and stopped. It is the engine's only one.
create table leasehold.test_clock (moved interval not null, stopped_at timestamptz);
insert into leasehold.test_clock values (interval '0', null);
create or replace function leasehold.clock() returns timestamptz language sql volatile
    as $$ select coalesce(stopped_at, clock_timestamp()) + moved from leasehold.test_clock $$;
