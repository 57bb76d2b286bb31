-- Names of workers: the host and the pid of each registration, for readers of attempts whose worker has gone.
--
-- A row of `workers` ends with its registration. Attempts and jobs refer to workers by their id alone, 16 bytes in each
-- row; a worker writes its name once, when it joins.
--
-- The release before does not know this table, and does not need it. Attempts of its workers are shown with their ids.
-- needs: 0001

-- How long names are kept after the start of a worker that has gone.
alter table leasehold.settings
    add column worker_history interval not null default interval '400 days'
        check (worker_history between interval '0' and interval '3650 days');

create table leasehold.worker_names (
    id          uuid primary key,
    host        text not null,
    pid         integer not null,
    started_at  timestamptz not null
);

create index worker_names_prune on leasehold.worker_names (started_at);

insert into leasehold.worker_names (id, host, pid, started_at)
select id, host, pid, started_at from leasehold.workers;
