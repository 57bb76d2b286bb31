-- Creates the table that records applied migrations.
create table if not exists leasehold.migrations (
    version     integer primary key,
    name        text not null,
    needs       integer not null, -- the oldest code that works on it is the one that knew this version
    applied_at  timestamptz not null default clock_timestamp()
);
